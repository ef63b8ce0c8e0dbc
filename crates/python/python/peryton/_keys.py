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
    """Whether each of several volumes gets the requests of its own volume of the trace, or all of them. Default:
    "own". Placements: logging."""
    log: Literal["regions", "stream"]
    """How several volumes share the log device. `regions`: each has a log in its own region. `stream`: one log
    has the whole `size`, and the writes of all volumes are appended to it in one stream (Griffin, section 7).
    Default: "regions". Placements: logging."""


class HostKeys(TypedDict, total=False):
    """``[host]`` of a design."""

    cache: int | str
    """The size of the host's own cache, whose evictions are hints to migrate data (Griffin, section 7).
    Simulations only. Default: no hints. Placements: logging."""


class DevicesKeys(TypedDict, total=False):
    """``[devices.NAME]`` of a design."""

    profile: str
    """A shipped profile (`peryton profiles`), or the path of one. Simulations need it; a drive in service does
    not. Default: none, but simulations need one."""
    design: str | dict[str, Any]
    """A drive in the place of a device: the file of its design, relative to this one, or the tables of it. Its
    volume is the device, and it takes no `profile`. A drive in service has the inner volume at `path`, such
    as `/dev/ublkb0`, and does not read this. Default: none: the device is one of `profile`."""
    model: dict[str, Any]
    """Single values of the profile's model, in place of its own: the parameters of device models. Default: the
    profile's values."""
    count: int
    """How many such devices there are, striped unless `redundancy` says otherwise. Unit: devices. Default: 1."""
    capacity: int | str
    """The capacity of each, if it is smaller than the profile's device: its price, its rated writes and its
    cycles are in proportion, its speed and power are the profile's. Default: the profile's."""
    stripe: int | str
    """The bytes on one member of an array before the next member follows. Default: "64KiB"."""
    redundancy: Literal["none", "mirror", "raid5", "raid6"]
    """How an array survives the failure of members. Default: "none"."""
    spares: int
    """Spare devices, which are bought but not attached. Unit: devices. Default: 0."""
    size: int | str
    """How much of the device, or of the array, the volume uses. Without it a simulation uses the profile's
    capacity, and `create` the whole file or block device at `path`; a volume keeps its sizes until `resize`
    changes them. Default: all of it, or what volume.size leaves for it."""
    path: str
    """The block device or file, relative to the design file. Needed by a drive in service, ignored by
    simulations. Default: none."""
    price_usd: float
    """The price of each. Unit: US dollars. Default: the profile's, in proportion to capacity."""
    owned: int
    """How many of them are there already and cost nothing. Unit: devices. Default: 0."""


class PowerKeys(TypedDict, total=False):
    """``[power.NAME]`` of a design."""

    spin_down_after: str
    """How long the device is idle before it is put into standby. A drive in service waits for a second at the
    least. Default: "never"."""


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
    """PT: an extent is promoted when its misses within the window exceed this. 0 promotes it at the first miss.
    Unit: misses. Default: 4; caching without this key: 0 while more than demotion.high slots are free, and
    for writes of whole blocks by a host that flushes after at most 8 writes. Placements: tiering, caching."""
    window: str
    """TW: the misses of an extent are counted from the beginning after a gap longer than this. Default: "60s".
    Placements: tiering, caching."""


class PlacementDemotionKeys(TypedDict, total=False):
    """``[placement.demotion]`` of a design."""

    low: int
    """LT: extents begin to leave the fast device when fewer slots than this are free. Unit: extents. Default:
    64, or as many as have 4MiB; on a small device half of high. Placements: tiering, caching, partitioned."""
    high: int
    """HT: extents leave until this many slots are free. Unit: extents. Default: 128, or as many as have 8MiB; on
    a small device at most an eighth. Placements: tiering, caching, partitioned."""


class PlacementBypassKeys(TypedDict, total=False):
    """``[placement.bypass]`` of a design."""

    sequential: int | str
    """A sequential stream stops bringing data to the fast device after this many bytes. Default: "4MiB".
    Placements: tiering, caching."""
    congested: bool
    """Whether misses bring nothing to the fast device while it is slower than the slow one. Default: true.
    Placements: tiering, caching."""


class PlacementWarmKeys(TypedDict, total=False):
    """``[placement.warm]`` of a design."""

    interval: str
    """How often a drive in service saves what its policies have learnt, so that it is warm after a restart. It
    takes such a snapshot when it is stopped as well. `never`: it takes none, and begins cold. A simulation
    takes none. Default: "300s". Placements: tiering, caching, partitioned."""


class PlacementWritebackKeys(TypedDict, total=False):
    """``[placement.writeback]`` of a design."""

    delay: str
    """How long an extent is dirty before it may be written back because the slow device is idle. Default: "30s".
    Placements: caching."""
    dirty_target: float
    """The share of the cache that may be dirty. A write beyond it goes to the slow device as well, or there
    alone. Unit: share. Default: 0.4. Placements: caching."""
    max_age: str
    """The longest time for which an extent stays dirty; not below `delay`. Default: "600s". Placements: caching."""
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
    """Writes up to this size are gathered into appends of up to this size, at most 128KiB; larger ones are
    appended by themselves. Default: "128KiB". Placements: logging."""
    delay: str
    """How long the first write of an append waits for others; with 0 it waits only while other appends are in
    flight. Default: "0s". Placements: logging."""


class PlacementKeys(TypedDict, total=False):
    """``[placement]`` of a design."""

    mode: Literal["single", "linear", "tiering", "caching", "partitioned", "logging"]
    """How data is placed on the devices. `single`: on one. `linear`: on one after the other. `tiering`: each
    extent on one of two. `caching`: copies on the fast one. `partitioned`: writes to the one that answers
    sooner. `logging`: a log before a primary. Required."""
    device: str
    """The device. Default: the only one. Placements: single."""
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
    """MCML: the most moves between the devices at a time. Unit: moves. Default: 16, or as many as have 4MiB.
    Placements: tiering, caching, partitioned."""
    replacement: Literal["wsclock", "lru", "two_queue", "s3fifo", "arc", "sieve", "lirs", "w_tiny_lfu", "lrfu", "clock_pro", "fifo", "clock", "slru", "lfu", "lfu_da", "gdsf", "hyperbolic", "random"]
    """The policy that chooses which extents leave the fast device. Default: "wsclock". Placements: tiering,
    caching, partitioned."""
    commit_interval: str
    """An update of the map is durable after this time at the latest, and sooner if a flush waits for it.
    Default: "5s". Placements: tiering, caching, partitioned."""
    journal: Literal["named", "mirrored"]
    """Where commits are written. `named`: to the fast device, and to the slow one only if an extent of a further
    region becomes newer on the fast one (tiering: as `mirrored`). `mirrored`: to both devices. Default:
    "named". Placements: tiering, caching, partitioned."""
    write: Literal["back", "through", "around"]
    """Where writes go: to the cache and later to the slow device (`back`), to both (`through`), or past the
    cache (`around`). Default: "back". Placements: caching."""
    bypass: PlacementBypassKeys
    warm: PlacementWarmKeys
    writeback: PlacementWritebackKeys
    write_unit: int | str
    """The unit in which the slow device, or the primary, maps its data, if that is large (QLC flash). Write-back
    then writes whole units, and reads what the fast device lacks of them once. A power of two from 8KiB to
    1MiB that divides the extent; `never` for none. `auto`: the profile's `mapping_unit`; of a drive in
    service, what the kernel says of flash. Default: "auto". Placements: caching, logging."""
    primary: str | list[str]
    """The device that holds the data. A list names several that share the log: each is served as a volume of its
    own. Required. Placements: logging."""
    log: str
    """The device that holds the log. Required. Placements: logging."""
    block: int | str
    """The block size of the log's map: a power of two from 512B to 64KiB. Default: "4KiB". Placements: logging."""
    caching: Literal["full", "selective"]
    """Which writes go to the log: all (`full`), or those of blocks that are overwritten often (`selective`;
    Griffin, section 4.2). Default: "full". Placements: logging."""
    overwrite_ratio: float
    """The share of a block's writes that have to be overwrites (with `caching = "selective"`). Unit: share.
    Default: 0.5. Placements: logging."""
    gather: PlacementGatherKeys
    bypass_behind: str
    """Writes go to the primary, past the log, while the log is behind by more than this and the primary answers
    sooner. It is behind by the age of its oldest append under way (Griffin, section 7). Default: "100ms".
    Placements: logging."""
    checkpoint_interval: str
    """The interval at which an index of new appends is written to the log, which shortens its opening after a
    crash. Default: "30s". Placements: logging."""
    migration_memory: int | str
    """How many bytes of the log a migration reads, sorts by address and writes together. Default: "64MiB".
    Placements: logging."""


class TriggersKeys(TypedDict, total=False):
    """``[triggers]`` of a design."""

    timeout: str
    """The log is migrated to the primary when this time has passed since the last migration. A design with a
    table `[triggers]` has the triggers in that table, and `log_used` (Griffin, section 5.2). Default: never;
    without the table: 900s. Placements: logging."""
    read_share: float
    """The log is migrated when a larger share of the reads since the last migration needed it. The number of
    reads counts as at least `1 / read_share`. Unit: share. Default: never; without the table: 0.05.
    Placements: logging."""
    size: int | str
    """The log is migrated when this many bytes in it are the newest copy. Default: never. Placements: logging."""
    log_used: float
    """The log is migrated when this share of it is written. Unit: share. Default: 0.9. Placements: logging."""


class AdmissionAdaptiveObjectiveKeys(TypedDict, total=False):
    """``[admission.adaptive.objective]`` of a design."""

    latency: float
    """The weight of the mean response time in the objective: the product of response time, wear and energy of an
    access, each to the power of its weight. Unit: weight. Default: 1. Placements: caching."""
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
    """The number of sampled caches among which these extents are divided, each with a threshold of its own: 2 to
    64. Unit: caches. Default: 10. Placements: caching."""
    smoothing: float
    """The weight of the past in the bytes that the sampled caches write (α of equations 12 and 14): from 0 to
    less than 1. Unit: share. Default: 0.8 for rates up to 0.01, above 0.9. Placements: caching."""
    frame: int
    """The number of sampled accesses after which the threshold is set. Unit: accesses. Default: 1000.
    Placements: caching."""
    target_latency: str
    """A sampled cache whose mean response time is above this is not considered; if none is left, everything is
    admitted. Default: none. Placements: caching."""
    objective: AdmissionAdaptiveObjectiveKeys


class AdmissionKeys(TypedDict, total=False):
    """``[admission]`` of a design."""

    by: Literal["all", "size", "hotness", "hottest_share", "probability", "flashiness"]
    """The rule by which misses are admitted to the cache. Without the table `[admission]` all are. Required.
    Placements: caching."""
    threshold: float | str
    """The fixed threshold of the rule. `size`: the largest request that is admitted. `hotness`: the references
    that an extent has to exceed. `hottest_share`: the share of the extents with the most references.
    `probability`: the share of the misses that is admitted. Default: the rule's own, if it has one.
    Placements: caching."""
    write_hits: Literal["cache", "bypass"]
    """Whether the rule judges misses only (`cache`), or also writes to cached extents, which then may bypass
    their copies (`bypass`). Default: bypass by probability, otherwise cache. Placements: caching."""
    adaptive: AdmissionAdaptiveKeys


class PartitionKeys(TypedDict, total=False):
    """``[partition]`` of a design."""

    window: int
    """The number of requests from which the fast device's response time is predicted (`predict = "linear"`).
    Unit: requests. Default: 32. Placements: partitioned."""
    training: int
    """The number of host writes during which the linear model learns; with 0 it keeps learning, and forgets.
    Unit: requests. Default: 0. Placements: partitioned."""
    predict: Literal["linear", "last_value", "off"]
    """How the fast device's response time is predicted (MixedStore, section 5.1). `linear`: by a linear model.
    `last_value`: by the last response time. `off`: not at all, and every write goes to the fast device.
    Default: "linear". Placements: partitioned."""
    regulate: float
    """The share of the writes for the fast device that are sent to the slow one instead, so that it wears less
    (MixedStore, section 5.4). Unit: share. Default: 0. Placements: partitioned."""
    lifetime_years: float
    """How long the fast device has to last: as many writes as necessary go to the slow device. With `regulate`
    only this share of them goes there, while the host writes more than the budget allows. Unit: years.
    Default: no bound. Placements: partitioned."""
    write_amplification: float
    """The write amplification of the fast device while no report says how much it programs. Unit: factor.
    Default: 1. Placements: partitioned."""
    idle_after: str
    """The host counts as idle after this long without a request. Default: "20ms". Placements: partitioned."""
    bust_after: str
    """Fragmentation busting (MixedStore, section 5.3): when the host is idle, extents that were not used for
    this long move to the slow device, and their slots are discarded. Default: "60s". Placements: partitioned."""
    bust_free: float
    """Fragmentation busting stops when this share of the fast device is empty. Unit: share. Default: 0.2.
    Placements: partitioned."""
    promote_reads: int
    """Extents that were read this often by small requests are copied to the fast device when the host is idle;
    0: none. Unit: reads. Default: 4. Placements: partitioned."""
    small: int | str
    """The size of the largest small request. Default: "64KiB". Placements: partitioned."""


class ClimbCapsKeys(TypedDict, total=False):
    """``[climb.caps]`` of a design."""

    mean: str
    """The highest mean response time in any span. Default: none. Placements: tiering, caching."""
    p99: str
    """The highest 99th percentile of response times in any span. Default: none. Placements: tiering, caching."""
    fast_writes_per_day: int | str
    """The most that may be written to the fast device in a day, on a long average. Default: none. Placements:
    tiering, caching."""
    lifetime_years: float
    """How long the fast device has to last, on a long average; instead of `fast_writes_per_day`. Unit: years.
    Default: none. Placements: tiering, caching."""
    power: str
    """The most power of all devices together, on a long average. Simulations only: a drive in service cannot
    measure it. Default: none. Placements: tiering, caching."""


class ClimbKeys(TypedDict, total=False):
    """``[climb]`` of a design."""

    every: str
    """How long a step is tried, and how long the drive is observed before and after without it. The table
    `[climb]` turns hill climbing on: the drive changes its own settings, one step at a time, and keeps a step
    if it does better. Default: "30s". Placements: tiering, caching."""
    requests: int
    """A span with fewer requests than this continues until it has as many. Unit: requests. Default: 1000.
    Placements: tiering, caching."""
    latency: float
    """The weight of the mean response time in the score, a product of powers. Unit: weight. Default: 1.
    Placements: tiering, caching."""
    wear: float
    """The weight of the bytes written to the fast device. Unit: weight. Default: 0. Placements: tiering,
    caching."""
    caps: ClimbCapsKeys


class FailureKeys(TypedDict, total=False):
    """``[failure]`` of a design."""

    patience: str
    """How long a device that fails may take to come back before a drive in service gives it up; clients wait
    meanwhile. Default: "120s"."""


class DurabilityKeys(TypedDict, total=False):
    """``[durability]`` of a design."""

    process_death: Literal["shared-memory", "off"]
    """Where a drive in service keeps what must survive its process: in memory that outlives it, or nowhere.
    Default: "shared-memory"."""
    directory: str
    """The directory for this memory, on a file system in memory, of mode 0700 and owned by the user who serves.
    It is used if neither systemd nor the supervisor keeps the memory. Default: one of the user's own, such as
    /run/peryton/handoff."""


class PageCacheKeys(TypedDict, total=False):
    """``[page_cache]`` of a design."""

    size: int | str
    """The memory of the host in which it keeps pages of the volume and holds writes back, as Linux does for
    files that are not opened with O_DIRECT. The table `[page_cache]` turns it on: the trace then has the
    requests of programs, and the drive gets misses and write-backs. Simulations only; a drive in service has
    the cache of its host. Default: no page cache: the trace is what the drive gets."""
    dirty_expire: str
    """The age at which a dirty page is written back (Linux: `vm.dirty_expire_centisecs`). Default: "30s"."""
    writeback_interval: str
    """How often the host looks for such pages (Linux: `vm.dirty_writeback_centisecs`). Default: "5s"."""
    dirty_background: float
    """The share of the cache that may be dirty before the host begins to write back whatever the age (Linux:
    `vm.dirty_background_ratio`). Unit: share. Default: 0.1."""
    dirty_limit: float
    """The share of the cache that may be dirty or being written before writes wait (Linux: `vm.dirty_ratio`).
    Unit: share. Default: 0.2."""
    mb_per_s: float
    """The rate at which the host copies between the cache and its programs, all of them together. Unit: MB/s.
    Default: 4000."""
    latency: str
    """The time of a request besides copying: the system call, and finding its pages. Default: "2us"."""


class LoadKeys(TypedDict, total=False):
    """``[load]`` of a design."""

    share: float
    """The share of the data in use that traces touch: the design is simulated smaller by as much. A drive in
    service ignores it. Unit: share. Default: 1."""
    span: int | str
    """The address space of these traces, to which the volume may shrink. A drive in service ignores it. Default:
    the share of the volume."""
    duty: float
    """The share of the time in which the load goes on: devices wear so much more slowly. A drive in service
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
