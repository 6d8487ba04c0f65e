from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRunRequest(_message.Message):
    __slots__ = ("config_json", "client_request_id")
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    CLIENT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    config_json: str
    client_request_id: str
    def __init__(self, config_json: _Optional[str] = ..., client_request_id: _Optional[str] = ...) -> None: ...

class SubmitRunResponse(_message.Message):
    __slots__ = ("run", "already_known")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ALREADY_KNOWN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    already_known: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., already_known: _Optional[bool] = ...) -> None: ...

class RunRef(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("run_id", "reason")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ("run_id", "purge")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    purge: bool
    def __init__(self, run_id: _Optional[str] = ..., purge: _Optional[bool] = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = ("run_id", "purged", "bytes_freed")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FREED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    purged: bool
    bytes_freed: int
    def __init__(self, run_id: _Optional[str] = ..., purged: _Optional[bool] = ..., bytes_freed: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "name", "state", "outcome", "reason", "desired", "worker_type", "algo", "env_id", "config_json", "created_at", "started_at", "ended_at", "active_seconds", "queue_position", "last_step", "total_steps", "pid", "attempt", "revision", "reserved", "run_dir", "log_dir", "capabilities_json", "agent_id", "worker_id", "deleted", "seconds_since_progress", "start_mode", "headline")
    class HeadlineEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    WORKER_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    ENV_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    RUN_DIR_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_JSON_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_SINCE_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    START_MODE_FIELD_NUMBER: _ClassVar[int]
    HEADLINE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    state: str
    outcome: str
    reason: str
    desired: str
    worker_type: str
    algo: str
    env_id: str
    config_json: str
    created_at: float
    started_at: float
    ended_at: float
    active_seconds: float
    queue_position: int
    last_step: int
    total_steps: int
    pid: int
    attempt: int
    revision: int
    reserved: Resources
    run_dir: str
    log_dir: str
    capabilities_json: str
    agent_id: str
    worker_id: str
    deleted: bool
    seconds_since_progress: float
    start_mode: str
    headline: _containers.ScalarMap[str, float]
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., outcome: _Optional[str] = ..., reason: _Optional[str] = ..., desired: _Optional[str] = ..., worker_type: _Optional[str] = ..., algo: _Optional[str] = ..., env_id: _Optional[str] = ..., config_json: _Optional[str] = ..., created_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., active_seconds: _Optional[float] = ..., queue_position: _Optional[int] = ..., last_step: _Optional[int] = ..., total_steps: _Optional[int] = ..., pid: _Optional[int] = ..., attempt: _Optional[int] = ..., revision: _Optional[int] = ..., reserved: _Optional[_Union[Resources, _Mapping]] = ..., run_dir: _Optional[str] = ..., log_dir: _Optional[str] = ..., capabilities_json: _Optional[str] = ..., agent_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., deleted: _Optional[bool] = ..., seconds_since_progress: _Optional[float] = ..., start_mode: _Optional[str] = ..., headline: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpus", "gpus", "memory_mb", "gpu_indices")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    cpus: int
    gpus: int
    memory_mb: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cpus: _Optional[int] = ..., gpus: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "states", "outcomes", "search", "include_deleted")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    states: _containers.RepeatedScalarFieldContainer[str]
    outcomes: _containers.RepeatedScalarFieldContainer[str]
    search: str
    include_deleted: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., outcomes: _Optional[_Iterable[str]] = ..., search: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token", "total")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    total: int
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class RunHistory(_message.Message):
    __slots__ = ("transitions",)
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    transitions: _containers.RepeatedCompositeFieldContainer[RunTransition]
    def __init__(self, transitions: _Optional[_Iterable[_Union[RunTransition, _Mapping]]] = ...) -> None: ...

class RunTransition(_message.Message):
    __slots__ = ("revision", "wall_time", "from_state", "to_state", "cause", "detail", "reserved")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    FROM_STATE_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    wall_time: float
    from_state: str
    to_state: str
    cause: str
    detail: str
    reserved: Resources
    def __init__(self, revision: _Optional[int] = ..., wall_time: _Optional[float] = ..., from_state: _Optional[str] = ..., to_state: _Optional[str] = ..., cause: _Optional[str] = ..., detail: _Optional[str] = ..., reserved: _Optional[_Union[Resources, _Mapping]] = ...) -> None: ...

class WatchRunsRequest(_message.Message):
    __slots__ = ("after_revision",)
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    after_revision: int
    def __init__(self, after_revision: _Optional[int] = ...) -> None: ...

class RunUpdate(_message.Message):
    __slots__ = ("revision", "run", "deleted")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    run: Run
    deleted: bool
    def __init__(self, revision: _Optional[int] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., deleted: _Optional[bool] = ...) -> None: ...

class GetMetricsRequest(_message.Message):
    __slots__ = ("run_id", "tags", "max_points", "after_step")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    MAX_POINTS_FIELD_NUMBER: _ClassVar[int]
    AFTER_STEP_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    max_points: int
    after_step: int
    def __init__(self, run_id: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., max_points: _Optional[int] = ..., after_step: _Optional[int] = ...) -> None: ...

class GetMetricsResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[MetricSeries]
    def __init__(self, series: _Optional[_Iterable[_Union[MetricSeries, _Mapping]]] = ...) -> None: ...

class MetricSeries(_message.Message):
    __slots__ = ("tag", "steps", "values", "wall_times", "total_points")
    TAG_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    WALL_TIMES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_POINTS_FIELD_NUMBER: _ClassVar[int]
    tag: str
    steps: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    wall_times: _containers.RepeatedScalarFieldContainer[float]
    total_points: int
    def __init__(self, tag: _Optional[str] = ..., steps: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ..., wall_times: _Optional[_Iterable[float]] = ..., total_points: _Optional[int] = ...) -> None: ...

class StreamRecordsRequest(_message.Message):
    __slots__ = ("run_id", "after_row", "follow")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_ROW_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after_row: int
    follow: bool
    def __init__(self, run_id: _Optional[str] = ..., after_row: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class RecordPage(_message.Message):
    __slots__ = ("records", "last_row")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_ROW_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    last_row: int
    def __init__(self, records: _Optional[_Iterable[bytes]] = ..., last_row: _Optional[int] = ...) -> None: ...

class StreamLogsRequest(_message.Message):
    __slots__ = ("run_id", "follow", "tail_lines", "source")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_LINES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    follow: bool
    tail_lines: int
    source: str
    def __init__(self, run_id: _Optional[str] = ..., follow: _Optional[bool] = ..., tail_lines: _Optional[int] = ..., source: _Optional[str] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("source", "data")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    source: str
    data: bytes
    def __init__(self, source: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers", "problems")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerInfo]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerInfo, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("type", "name", "version", "summary", "lane", "manifest_json", "ready", "readiness")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_JSON_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    READINESS_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    version: str
    summary: str
    lane: str
    manifest_json: str
    ready: bool
    readiness: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., summary: _Optional[str] = ..., lane: _Optional[str] = ..., manifest_json: _Optional[str] = ..., ready: _Optional[bool] = ..., readiness: _Optional[str] = ...) -> None: ...

class HealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Health(_message.Message):
    __slots__ = ("version", "pid", "uptime_seconds", "target", "home", "capacity", "reserved", "queued", "live", "disk_free_bytes", "warnings", "warm_servers", "gpu_names")
    class WarmServersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    WARM_SERVERS_FIELD_NUMBER: _ClassVar[int]
    GPU_NAMES_FIELD_NUMBER: _ClassVar[int]
    version: str
    pid: int
    uptime_seconds: float
    target: str
    home: str
    capacity: Resources
    reserved: Resources
    queued: int
    live: int
    disk_free_bytes: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    warm_servers: _containers.ScalarMap[str, str]
    gpu_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., pid: _Optional[int] = ..., uptime_seconds: _Optional[float] = ..., target: _Optional[str] = ..., home: _Optional[str] = ..., capacity: _Optional[_Union[Resources, _Mapping]] = ..., reserved: _Optional[_Union[Resources, _Mapping]] = ..., queued: _Optional[int] = ..., live: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ..., warm_servers: _Optional[_Mapping[str, str]] = ..., gpu_names: _Optional[_Iterable[str]] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ("live_runs",)
    LIVE_RUNS_FIELD_NUMBER: _ClassVar[int]
    live_runs: int
    def __init__(self, live_runs: _Optional[int] = ...) -> None: ...

class RegisterWorkerRequest(_message.Message):
    __slots__ = ("run_id", "worker_id", "pid", "start_ticks", "capabilities_json", "protocol_version")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    START_TICKS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_JSON_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    worker_id: str
    pid: int
    start_ticks: int
    capabilities_json: str
    protocol_version: str
    def __init__(self, run_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., pid: _Optional[int] = ..., start_ticks: _Optional[int] = ..., capabilities_json: _Optional[str] = ..., protocol_version: _Optional[str] = ...) -> None: ...

class RegisterWorkerResponse(_message.Message):
    __slots__ = ("session_token", "heartbeat_seconds", "desired")
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    session_token: str
    heartbeat_seconds: float
    desired: str
    def __init__(self, session_token: _Optional[str] = ..., heartbeat_seconds: _Optional[float] = ..., desired: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("run_id", "step", "total_steps", "phase")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    total_steps: int
    phase: str
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., total_steps: _Optional[int] = ..., phase: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("desired",)
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    desired: str
    def __init__(self, desired: _Optional[str] = ...) -> None: ...

class RecordBatch(_message.Message):
    __slots__ = ("run_id", "stream", "first_seq", "lines")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    stream: str
    first_seq: int
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, run_id: _Optional[str] = ..., stream: _Optional[str] = ..., first_seq: _Optional[int] = ..., lines: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RecordAck(_message.Message):
    __slots__ = ("stream", "acked_seq")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ACKED_SEQ_FIELD_NUMBER: _ClassVar[int]
    stream: str
    acked_seq: int
    def __init__(self, stream: _Optional[str] = ..., acked_seq: _Optional[int] = ...) -> None: ...

class ControlHello(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ControlMessage(_message.Message):
    __slots__ = ("desired", "reason", "grace_seconds")
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    desired: str
    reason: str
    grace_seconds: float
    def __init__(self, desired: _Optional[str] = ..., reason: _Optional[str] = ..., grace_seconds: _Optional[float] = ...) -> None: ...
