"""The keys of designs, as types: editors complete them, and mypy checks them. scripts/python_keys.py of the repository has made
this file from the code that reads designs."""

from typing import Any, Literal, TypedDict


class VolumeKeys(TypedDict, total=False):
    """``[volume]`` of a design."""

    size: int | str
    """The size of the volume that the host sees. Default: the devices' sizes, by the placement."""
    count: int
    """How many volumes share one log device, each with a primary of its own. Simulations only. Unit: volumes.
    Default: 1. Placements: logging."""
    requests: Literal["own", "same"]
    """Which requests each of several volumes gets. `own`: those of one volume of the trace. `same`: all requests
    of the trace. Default: "own". Placements: logging."""
    log: Literal["regions", "stream"]
    """How several volumes share the log device. `regions`: each has a log in its own region. `stream`: one log
    has the whole `size` of the device, and takes the writes of all volumes in one stream (Griffin, section
    7). Default: "regions". Placements: logging."""


class HostKeys(TypedDict, total=False):
    """``[host]`` of a design."""

    cache: int | str
    """The size of the host's own cache, whose evictions are hints to migrate data (Griffin, section 7).
    Simulations only. Default: no hints. Placements: logging."""


class DevicesKeys(TypedDict, total=False):
    """``[devices.NAME]`` of a design."""

    profile: str
    """A shipped profile (`peryton profiles`), or the path of one. Simulations need a profile; a served volume
    does not. Default: none, but simulations need one."""
    design: str | dict[str, Any]
    """A drive of Peryton in place of a device: the path of the inner design, relative to this file, or the
    tables of the inner design. The volume of the inner drive is the device, so the device has no `profile`. A
    served volume has the inner volume at `path`, such as `/dev/ublkb0`, and ignores this key. Default: none:
    the device is one of `profile`."""
    model: dict[str, Any]
    """Values that replace single parameters of the profile's device model (`peryton keys devices.NAME.model`
    lists them). Default: the profile's values."""
    count: int
    """The number of such devices. They are striped unless `redundancy` has another value. Unit: devices.
    Default: 1."""
    capacity: int | str
    """The capacity of each device, if it is less than the profile's. Price and rated writes are then in
    proportion to the capacity; speed and power are those of the profile. Default: the profile's."""
    stripe: int | str
    """The bytes on one member of an array before the next member follows. Default: "64KiB"."""
    redundancy: Literal["none", "mirror", "raid5", "raid6"]
    """How an array survives the failure of members. Default: "none"."""
    spares: int
    """Spare devices, which are bought but not attached. Unit: devices. Default: 0."""
    size: int | str
    """How much of the device, or of the array, the volume uses. Without this key, a simulation uses the
    profile's capacity, and `create` the whole file or block device at `path`. A volume keeps its sizes until
    `resize` changes them. Default: all of it, or what volume.size leaves for it."""
    path: str
    """The block device or file, relative to the design file. A served volume needs it; simulations ignore it.
    Default: none."""
    price_usd: float
    """The price of each such device. Unit: US dollars. Default: the profile's, in proportion to capacity."""
    owned: int
    """The number of these devices that you own already: they cost nothing. Unit: devices. Default: 0."""


class PowerKeys(TypedDict, total=False):
    """``[power.NAME]`` of a design."""

    spin_down_after: str
    """The idle time after which the device is put into standby. A server waits at least one second. Default:
    "never"."""


class EnduranceKeys(TypedDict, total=False):
    """``[endurance.NAME]`` of a design."""

    written: int | str
    """The bytes that may be written to each such device in its life. Default: the profile's, or its capacity
    times its cycles."""
    start_stops: int
    """How often each such device can be started and stopped. Unit: times. Default: the profile's."""


class PlacementPromotionKeys(TypedDict, total=False):
    """``[placement.promotion]`` of a design."""

    threshold: int
    """PT: an extent is promoted when it has more misses than this within the window. With 0 it is promoted at
    the first miss. Unit: misses. Default: 4; in caching 0 while more than demotion.high slots are free, and 0
    for writes of whole blocks if the host flushes after at most 8 writes. Placements: tiering, caching."""
    window: str
    """TW: after a gap longer than this, the misses of an extent count from zero. Default: "60s". Placements:
    tiering, caching."""


class PlacementDemotionKeys(TypedDict, total=False):
    """``[placement.demotion]`` of a design."""

    low: int
    """LT: extents begin to leave the fast device when fewer slots than this are free. Unit: extents. Default:
    64, or as many as have 4MiB if that is more; on a small device half of demotion.high. Placements: tiering,
    caching, partitioned."""
    high: int
    """HT: extents leave until this many slots are free. Unit: extents. Default: 128, or as many as have 8MiB if
    that is more; on a small device at most an eighth of its slots. Placements: tiering, caching, partitioned."""


class PlacementBypassKeys(TypedDict, total=False):
    """``[placement.bypass]`` of a design."""

    sequential: int | str
    """After this many bytes of a sequential stream, its misses bring no data to the fast device. Default:
    "4MiB". Placements: tiering, caching."""
    congested: bool
    """Whether misses bring no data to the fast device while it is slower than the slow one. Default: true.
    Placements: tiering, caching."""


class PlacementWarmKeys(TypedDict, total=False):
    """``[placement.warm]`` of a design."""

    interval: str
    """The time between two snapshots of the policies' state, which make the cache warm after a restart. The
    server takes another snapshot when it stops. `never`: no snapshots, so every start is cold. Simulations
    take none. Default: "300s". Placements: tiering, caching, partitioned."""


class PlacementWritebackKeys(TypedDict, total=False):
    """``[placement.writeback]`` of a design."""

    delay: str
    """The age from which a dirty extent is written back to an idle slow device. Default: "30s". Placements:
    caching."""
    dirty_target: float
    """The share of the cache that may be dirty. At this share, a write goes to both devices, or to the slow
    device alone. Unit: share. Default: 0.4. Placements: caching."""
    max_age: str
    """The age from which a dirty extent is overdue, and is written back even if the slow device is busy; not
    below `delay`. Default: "600s". Placements: caching."""
    idle_after: str
    """The slow device is idle when the host has not used it for this long. Default: a second, or `delay` if that
    is shorter. Placements: caching."""
    max_foreground_p99: str
    """While the 99th percentile of the host's response times is above this, write-back that can wait slows down.
    While it is below, write-back does not wait until the slow device is idle. Default: cleaning waits until
    the slow device is idle. Placements: caching."""


class PlacementGatherKeys(TypedDict, total=False):
    """``[placement.gather]`` of a design."""

    bytes: int | str
    """Writes of up to this size are gathered into appends of up to this size, at most 128KiB. A larger write is
    appended alone. Default: "128KiB". Placements: logging."""
    delay: str
    """The time for which the first write of an append waits for further writes. With 0 it waits only while other
    appends are in flight. Default: "0s". Placements: logging."""


class PlacementKeys(TypedDict, total=False):
    """``[placement]`` of a design."""

    mode: Literal["single", "linear", "tiering", "caching", "partitioned", "logging"]
    """The rule that decides on which device data lie. `single`: all on one device. `linear`: on one device after
    the other. `tiering`: each extent on one of two devices. `caching`: all on the slow device, copies on the
    fast one. `partitioned`: each write goes to the device that is predicted to answer sooner. `logging`: new
    writes in a log, other data on a primary. Required."""
    device: str
    """The device with all data. Default: the only one. Placements: single."""
    devices: list[str]
    """The devices in the order of their addresses. Default: all, in the order of the file. Placements: linear."""
    fast: str
    """The fast device. Required. Placements: tiering, caching, partitioned."""
    slow: str
    """The slow device. Required. Placements: tiering, caching, partitioned."""
    extent: int | str
    """The unit that moves between the devices: a multiple of 4KiB, up to 1GiB. Default: the smallest of 16KiB to
    64KiB (tiering: to 128KiB; partitioned: 4KiB to 128KiB) with which the map takes at most 1GiB of memory,
    or the largest. Placements: tiering, caching, partitioned."""
    promotion: PlacementPromotionKeys
    demotion: PlacementDemotionKeys
    max_moves: int
    """MCML: the most moves between the devices at a time. Unit: moves. Default: 16, or as many as have 4MiB if
    that is more. Placements: tiering, caching, partitioned."""
    replacement: Literal["wsclock", "lru", "two_queue", "s3fifo", "arc", "sieve", "lirs", "w_tiny_lfu", "lrfu", "clock_pro", "fifo", "clock", "slru", "lfu", "lfu_da", "gdsf", "hyperbolic", "random"]
    """The policy that chooses which extents leave the fast device. Default: "wsclock". Placements: tiering,
    caching, partitioned."""
    commit_interval: str
    """An update of the map is durable after this time at the latest, and sooner if a flush waits for it.
    Default: "5s". Placements: tiering, caching, partitioned."""
    journal: Literal["named", "mirrored"]
    """Where commits are written. `mirrored`: to both devices. `named`: to the fast device, and to both if the
    commit adds a region to the write-intent set, which names the regions that may be newer on the fast
    device. In `tiering`, `named` is the same as `mirrored`. Default: "named". Placements: tiering, caching,
    partitioned."""
    write: Literal["back", "through", "around"]
    """Where writes go: to the cache and later to the slow device (`back`), to both (`through`), or past the
    cache (`around`). Default: "back". Placements: caching."""
    bypass: PlacementBypassKeys
    warm: PlacementWarmKeys
    writeback: PlacementWritebackKeys
    write_unit: int | str
    """The mapping unit of the slow device, or of the primary, if this unit is large (QLC flash). Write-back then
    writes whole units, and reads the blocks of them that the fast device lacks. A power of two from 8KiB to
    1MiB that divides the extent; `never`: no unit. `auto`: in simulations the profile's `mapping_unit`, in
    service the unit that the kernel reports for flash. Default: "auto". Placements: caching, logging."""
    primary: str | list[str]
    """The device with the other data. A list names several primaries that share the log; each is served as a
    separate volume. Required. Placements: logging."""
    log: str
    """The device that holds the log. Required. Placements: logging."""
    block: int | str
    """The block size of the log's map: a power of two from 512B to 64KiB. Default: "4KiB". Placements: logging."""
    caching: Literal["full", "selective"]
    """Which writes go to the log: all (`full`), or those of blocks that are overwritten often (`selective`;
    Griffin, section 4.2). Default: "full". Placements: logging."""
    overwrite_ratio: float
    """With `caching = "selective"`: the least share of a block's writes that have to be overwrites before its
    writes go to the log. Unit: share. Default: 0.5. Placements: logging."""
    gather: PlacementGatherKeys
    bypass_behind: str
    """Writes bypass the log while its oldest append in flight is older than this and the primary answers sooner
    (Griffin, section 7). Default: "100ms". Placements: logging."""
    checkpoint_interval: str
    """The interval at which an index of new appends is written to the log. The index shortens the opening after
    a crash. Default: "30s". Placements: logging."""
    migration_memory: int | str
    """The bytes of the log that a migration reads, sorts by address and writes together. Default: "64MiB".
    Placements: logging."""


class TriggersKeys(TypedDict, total=False):
    """``[triggers]`` of a design."""

    timeout: str
    """The log is migrated to the primary when this time has passed since the last migration. If the design has a
    table `[triggers]`, only the triggers of that table and `log_used` hold (Griffin, section 5.2). Default:
    never; without the table: 900s. Placements: logging."""
    read_share: float
    """The log is migrated when more than this share of the reads since the last migration needed the log. Fewer
    reads than `1 / read_share` count as that many. Unit: share. Default: never; without the table: 0.05.
    Placements: logging."""
    size: int | str
    """The log is migrated when it has this many bytes that the primary lacks. Default: never. Placements:
    logging."""
    log_used: float
    """The log is migrated when this share of it is written. Unit: share. Default: 0.9. Placements: logging."""


class AdmissionAdaptiveObjectiveKeys(TypedDict, total=False):
    """``[admission.adaptive.objective]`` of a design."""

    latency: float
    """The weight of the mean response time in the objective. The objective is the product of response time, wear
    and energy of an access, each raised to the power of its weight. Unit: weight. Default: 1. Placements:
    caching."""
    wear: float
    """The weight of the wear, the reciprocal of the lifetime. Unit: weight. Default: 1. Placements: caching."""
    energy: float
    """The weight of the energy of an access; every device needs a profile with its power. Unit: weight. Default:
    0. Placements: caching."""


class AdmissionAdaptiveKeys(TypedDict, total=False):
    """``[admission.adaptive]`` of a design."""

    rate: float
    """The share of the extents that is sampled, above 0 and up to 0.5. The table `[admission.adaptive]` makes
    the threshold adaptive ("Mixed SSD arrays", section V). Unit: share. Default: 0.01. Placements: caching."""
    caches: int
    """The number of sampled caches, from 2 to 64. The sampled extents are divided among them, and each tries its
    own threshold. Unit: caches. Default: 10. Placements: caching."""
    smoothing: float
    """The weight of the past in the bytes that the sampled caches write (α of equations 12 and 14): from 0 to
    less than 1. Unit: share. Default: 0.8 for rates up to 0.01, above 0.9. Placements: caching."""
    frame: int
    """The number of sampled accesses after which the threshold is set. Unit: accesses. Default: 1000.
    Placements: caching."""
    target_latency: str
    """The highest mean response time of a sampled cache. Thresholds above it are dropped; if none is left,
    everything is admitted. Default: none. Placements: caching."""
    objective: AdmissionAdaptiveObjectiveKeys


class AdmissionKeys(TypedDict, total=False):
    """``[admission]`` of a design."""

    by: Literal["all", "size", "hotness", "hottest_share", "probability", "flashiness"]
    """The rule by which misses are admitted to the cache. Without the table `[admission]` all misses are
    admitted. Required. Placements: caching."""
    threshold: float | str
    """The fixed threshold of the rule. `size`: the largest request that is admitted. `hotness`: the references
    that an extent has to exceed. `hottest_share`: the share of the extents, those with the most references,
    that is admitted. `probability`: the share of the misses that is admitted. Default: the rule's own, if it
    has one. Placements: caching."""
    write_hits: Literal["cache", "bypass"]
    """Whether the rule judges misses only (`cache`), or also writes to cached extents, which then may bypass
    their copies (`bypass`). Default: bypass with the rule probability, otherwise cache. Placements: caching."""
    adaptive: AdmissionAdaptiveKeys


class PartitionKeys(TypedDict, total=False):
    """``[partition]`` of a design."""

    window: int
    """The number of latest requests from which the linear model predicts the fast device's response time
    (`predict = "linear"`). Unit: requests. Default: 32. Placements: partitioned."""
    training: int
    """The number of host writes during which the linear model learns. With 0 it learns all the time, and old
    requests lose weight. Unit: requests. Default: 0. Placements: partitioned."""
    predict: Literal["linear", "last_value", "off"]
    """How the fast device's response time is predicted (MixedStore, section 5.1). `linear`: by a linear model.
    `last_value`: by the last response time. `off`: not at all, and every write goes to the fast device.
    Default: "linear". Placements: partitioned."""
    regulate: float
    """The share of the writes for the fast device that go to the slow one, so that the fast device wears less
    (MixedStore, section 5.4). Unit: share. Default: 0. Placements: partitioned."""
    lifetime_years: float
    """The lifetime that the fast device must reach. It gives a budget of writes, and writes beyond the budget go
    to the slow device. With `regulate`, only that share of the writes goes there, and only while the host
    writes more than the budget. Unit: years. Default: no bound. Placements: partitioned."""
    write_amplification: float
    """The write amplification of the fast device, for as long as the device does not report the bytes that it
    programs. Unit: factor. Default: 1. Placements: partitioned."""
    idle_after: str
    """The time without a request after which the host counts as idle. Default: "20ms". Placements: partitioned."""
    bust_after: str
    """Fragmentation busting (MixedStore, section 5.3): when the host is idle, the drive moves extents that were
    unused for this time to the slow device, and discards their slots. Default: "60s". Placements:
    partitioned."""
    bust_free: float
    """Fragmentation busting stops when this share of the fast device is empty. Unit: share. Default: 0.2.
    Placements: partitioned."""
    promote_reads: int
    """The number of reads by small requests after which an idle host lets the drive copy an extent to the fast
    device. With 0 no extent is copied. Unit: reads. Default: 4. Placements: partitioned."""
    small: int | str
    """The size of the largest small request. Default: "64KiB". Placements: partitioned."""


class ClimbCapsKeys(TypedDict, total=False):
    """``[climb.caps]`` of a design."""

    mean: str
    """The highest mean response time in any span. Default: none. Placements: tiering, caching."""
    p99: str
    """The highest 99th percentile of response times in any span. Default: none. Placements: tiering, caching."""
    fast_writes_per_day: int | str
    """The most bytes written to the fast device in a day, on a long average. Default: none. Placements: tiering,
    caching."""
    lifetime_years: float
    """The lifetime that the fast device must reach, on a long average; an alternative to `fast_writes_per_day`.
    Unit: years. Default: none. Placements: tiering, caching."""
    power: str
    """The highest power of all devices together, on a long average. Simulations only: a served volume cannot
    measure its power. Default: none. Placements: tiering, caching."""


class ClimbKeys(TypedDict, total=False):
    """``[climb]`` of a design."""

    every: str
    """The shortest length of a span. A span is a trial of a changed setting, or an observation of the old
    setting before or after the trial. The table `[climb]` turns hill climbing on: the drive changes its own
    settings, one step at a time, and keeps a step that improves the score. Default: "30s". Placements:
    tiering, caching."""
    requests: int
    """A span with fewer requests than this continues until it has as many. Unit: requests. Default: 1000.
    Placements: tiering, caching."""
    latency: float
    """The weight of the mean response time in the score. The score is the product of response time and bytes
    written, each raised to the power of its weight. Unit: weight. Default: 1. Placements: tiering, caching."""
    wear: float
    """The weight of the bytes written to the fast device. Unit: weight. Default: 0. Placements: tiering,
    caching."""
    caps: ClimbCapsKeys


class FailureKeys(TypedDict, total=False):
    """``[failure]`` of a design."""

    patience: str
    """The longest time for which a server waits for a failing device before it gives the device up; clients wait
    meanwhile. Default: "120s"."""


class DurabilityKeys(TypedDict, total=False):
    """``[durability]`` of a design."""

    process_death: Literal["shared-memory", "off"]
    """Where a server keeps acknowledged writes that must survive a kill of its process: in memory that outlives
    the process, or nowhere. Default: "shared-memory"."""
    directory: str
    """The directory for this memory, on a file system in memory, of mode 0700 and owned by the user who serves.
    It is used if neither systemd nor the supervisor keeps the memory. Default: one of the user's own, such as
    /run/peryton/handoff."""


class PageCacheKeys(TypedDict, total=False):
    """``[page_cache]`` of a design."""

    size: int | str
    """The size of the host's page cache, which keeps pages of the volume and delays writes, as Linux does for
    files without O_DIRECT. The table `[page_cache]` turns it on: the trace then has the requests of programs,
    and the drive gets the misses and write-backs of the page cache. Simulations only; a served volume has the
    page cache of its host. Default: no page cache: the drive gets the requests of the trace."""
    dirty_expire: str
    """The age at which a dirty page is written back (Linux: `vm.dirty_expire_centisecs`). Default: "30s"."""
    writeback_interval: str
    """The interval at which the host looks for pages of this age (Linux: `vm.dirty_writeback_centisecs`).
    Default: "5s"."""
    dirty_background: float
    """The dirty share of the page cache at which the host begins to write back pages of any age (Linux:
    `vm.dirty_background_ratio`). Unit: share. Default: 0.1."""
    dirty_limit: float
    """The share of the page cache, dirty or being written, at which writes wait (Linux: `vm.dirty_ratio`). Unit:
    share. Default: 0.2."""
    mb_per_s: float
    """The rate at which the host copies between the page cache and all programs together. Unit: MB/s. Default:
    4000."""
    latency: str
    """The time of a request without the copy: the system call, and the search for its pages. Default: "2us"."""


class LoadKeys(TypedDict, total=False):
    """``[load]`` of a design."""

    share: float
    """The share of the active data that the traces touch. A simulation shrinks the design to this share. A
    served volume ignores it. Unit: share. Default: 1."""
    span: int | str
    """The address space of these traces: the simulated volume is not smaller than this. A served volume ignores
    it. Default: the share of the volume."""
    duty: float
    """The share of the time in which the load goes on. Devices wear only during this share. A served volume
    ignores it. Unit: share. Default: 1."""


class SeedKeys(TypedDict, total=False):
    """``[seed]`` of a design."""

    value: int
    """The seed of everything random. Default: 1."""


class CostKeys(TypedDict, total=False):
    """``[cost]`` of a design."""

    electricity_usd_per_kwh: float
    """The price of electricity. Unit: US dollars per kWh. Default: 0.12."""
    data: int | str
    """The amount of data for which the devices are bought, if the volume is a sample of it: the price per GB
    refers to this amount. Default: the volume."""


class DesignKeys(TypedDict, total=False):
    """All keys of a design."""

    name: str
    """The design's name in reports. Default: the file's name."""
    volume: VolumeKeys
    host: HostKeys
    devices: dict[str, DevicesKeys]
    power: dict[str, PowerKeys]
    endurance: dict[str, EnduranceKeys | int | Literal["never"]]
    placement: PlacementKeys
    triggers: TriggersKeys
    admission: AdmissionKeys
    partition: PartitionKeys
    climb: ClimbKeys
    failure: FailureKeys
    durability: DurabilityKeys
    page_cache: PageCacheKeys
    load: LoadKeys
    seed: SeedKeys
    cost: CostKeys


Key = Literal[
    "name",
    "volume.size",
    "volume.count",
    "volume.requests",
    "volume.log",
    "host.cache",
    "endurance.read_effect",
    "placement.mode",
    "placement.device",
    "placement.devices",
    "placement.fast",
    "placement.slow",
    "placement.extent",
    "placement.promotion.threshold",
    "placement.promotion.window",
    "placement.demotion.low",
    "placement.demotion.high",
    "placement.max_moves",
    "placement.replacement",
    "placement.commit_interval",
    "placement.journal",
    "placement.write",
    "placement.bypass.sequential",
    "placement.bypass.congested",
    "placement.warm.interval",
    "placement.writeback.delay",
    "placement.writeback.dirty_target",
    "placement.writeback.max_age",
    "placement.writeback.idle_after",
    "placement.write_unit",
    "placement.writeback.max_foreground_p99",
    "placement.primary",
    "placement.log",
    "placement.block",
    "placement.caching",
    "placement.overwrite_ratio",
    "placement.gather.bytes",
    "placement.gather.delay",
    "placement.bypass_behind",
    "placement.checkpoint_interval",
    "placement.migration_memory",
    "triggers.timeout",
    "triggers.read_share",
    "triggers.size",
    "triggers.log_used",
    "admission.by",
    "admission.threshold",
    "admission.write_hits",
    "admission.adaptive.rate",
    "admission.adaptive.caches",
    "admission.adaptive.smoothing",
    "admission.adaptive.frame",
    "admission.adaptive.target_latency",
    "admission.adaptive.objective.latency",
    "admission.adaptive.objective.wear",
    "admission.adaptive.objective.energy",
    "partition.window",
    "partition.training",
    "partition.predict",
    "partition.regulate",
    "partition.lifetime_years",
    "partition.write_amplification",
    "partition.idle_after",
    "partition.bust_after",
    "partition.bust_free",
    "partition.promote_reads",
    "partition.small",
    "climb.every",
    "climb.requests",
    "climb.latency",
    "climb.wear",
    "climb.caps.mean",
    "climb.caps.p99",
    "climb.caps.fast_writes_per_day",
    "climb.caps.lifetime_years",
    "climb.caps.power",
    "failure.patience",
    "durability.process_death",
    "durability.directory",
    "page_cache.size",
    "page_cache.dirty_expire",
    "page_cache.writeback_interval",
    "page_cache.dirty_background",
    "page_cache.dirty_limit",
    "page_cache.mb_per_s",
    "page_cache.latency",
    "load.share",
    "load.span",
    "load.duty",
    "seed.value",
    "cost.electricity_usd_per_kwh",
    "cost.data",
]
"""The dotted keys that do not name a device."""
