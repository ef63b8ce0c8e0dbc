//! Moves: small state machines that move an extent, or blocks of it, from one place to another, or detach it.
//!
//! ```text
//! promotion   [Draining →] Reading → (waiters served from RAM) → Writing → done   a failed write: → WritingOrigin → done
//! overwrite   Writing → done                                            the host's own data covers the extent
//! fill        [Draining →] Reading → (waiters served from RAM) → Writing → done    blocks of an extent that has a slot
//! demotion    Reading → Writing → done                                  an access cancels it
//! eviction    Reading → Writing → done                                  dirty extents of the cache; an access cancels
//! write-back  [Draining →] Reading → Writing → done                     a write leaves the extent dirty, or waits
//! zero        Writing → done                                            a reused place must not show its last tenant
//! drain       Draining → (Writing | Committing) → done                  waits for accesses in flight, then detaches
//! ```
//!
//! In tiering a *promotion* is a move. In caching it is two steps: a slot is assigned at once (`take_slot_for` in `routes/caching.rs`,
//! which counts it), and then a *fill* brings blocks, or the host's write does. A fill reads the slow device itself, or is fed by the
//! host's own read (`fill.rs`, begun by `routes/read_in_part.rs`). An *overwrite* copies nothing: the host's write covers its extent.
//!
//! The journal gathers the map update when a move ends; the places that a move frees may be reused only after the commit. One file a
//! kind; `steps.rs` begins and ends moves, `dispatch.rs` continues them, `waiters.rs` handles accesses during a move.

mod dispatch;
mod drain;
mod fill;
pub(in crate::cache) mod promotion;
mod steps;
pub(in crate::cache) mod table;
mod waiters;
mod whole;
mod write_back;
