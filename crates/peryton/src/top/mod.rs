//! The live screen of `peryton top`: what is asked of the server, what is made of it, how it is drawn, and the terminal.

mod sample;
mod screen;
mod terminal;
mod view;

pub use sample::Sample;
pub use screen::{as_text, shade};
pub use terminal::watch;
pub use view::View;
