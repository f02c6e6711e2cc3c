"""The tables of ``ascend_pytorch_profiler_*.db`` as torch_npu and msprof declare them (``SCHEMA_VERSION`` 1.0.0)."""

SCHEMA = """
STRING_IDS (id INTEGER PRIMARY KEY, value TEXT)
SESSION_TIME_INFO (startTimeNs INTEGER, endTimeNs INTEGER)
NPU_INFO (id INTEGER, name TEXT)
HOST_INFO (hostUid TEXT, hostName TEXT)
META_DATA (name TEXT, value TEXT)
RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER)
STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER)
TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER)
COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER)
COMMUNICATION_TASK_INFO (name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, notifyId INTEGER, rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, dataType INTEGER, linkType INTEGER, opId INTEGER)
COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType INTEGER)
CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY, name INTEGER)
PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER)
CONNECTION_IDS (id INTEGER, connectionId INTEGER)
PYTORCH_CALLCHAINS (id INTEGER, stack INTEGER, stackDepth INTEGER)
TASK_PMU_INFO (globalTaskId INTEGER, name INTEGER, value NUMERIC)
NPU_MEM (type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER, deviceId INTEGER)
HBM (deviceId INTEGER, timestampNs INTEGER, bandwidth NUMERIC, hbmId INTEGER, type INTEGER)
LLC (deviceId INTEGER, llcId INTEGER, timestampNs INTEGER, hitRate REAL, throughput INTEGER, mode INTEGER)
ACC_PMU (accId INTEGER, readBwLevel INTEGER, writeBwLevel INTEGER, readOstLevel INTEGER, writeOstLevel INTEGER, timestampNs NUMERIC, deviceId INTEGER)
SOC_BANDWIDTH_LEVEL (l2BufferBwLevel INTEGER, mataBwLevel INTEGER, timestampNs NUMERIC, deviceId INTEGER)
AICORE_FREQ (deviceId INTEGER, timestampNs NUMERIC, freq INTEGER)
QOS (deviceId INTEGER, eventName NUMERIC, bandwidth NUMERIC, timestampNs NUMERIC)
DDR (deviceId INTEGER, timestampNs INTEGER, read NUMERIC, write NUMERIC)
MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER)
OP_MEMORY (name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER, duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER, releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER)
NPU_MODULE_MEM (moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER)
ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT)
ENUM_MODULE (id INTEGER PRIMARY KEY, name TEXT)
ENUM_HCCL_DATA_TYPE (id INTEGER PRIMARY KEY, name TEXT)
ENUM_HCCL_LINK_TYPE (id INTEGER PRIMARY KEY, name TEXT)
ENUM_HCCL_TRANSPORT_TYPE (id INTEGER PRIMARY KEY, name TEXT)
ENUM_HCCL_RDMA_TYPE (id INTEGER PRIMARY KEY, name TEXT)
"""  # noqa: E501 - one table a line

ANALYSIS = """
StepTraceTime (step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC, communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC)
CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT)
CommAnalyzerBandwidth (hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT)
CommAnalyzerMatrix (hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT)
"""  # noqa: E501 - one table a line

INDEXES = (
    "CREATE INDEX CommunicationTaskIndex ON COMMUNICATION_TASK_INFO (globalTaskId)",
    "CREATE INDEX TaskIndex ON TASK (startNs, globalTaskId)",
)

ENUMS = {
    "ENUM_API_TYPE": {
        20000: "acl",
        15000: "model",
        10000: "node",
        5500: "hccl",
        5000: "runtime",
        50001: "op",
        50002: "queue",
        50003: "trace",
        50004: "mstx",
    },
    "ENUM_HCCL_DATA_TYPE": {0: "INT8", 1: "INT16", 2: "INT32", 3: "FP16", 4: "FP32", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_LINK_TYPE": {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 3: "ROCE", 4: "SIO", 65535: "INVALID_TYPE"},
    "ENUM_HCCL_TRANSPORT_TYPE": {0: "SDMA", 1: "RDMA", 2: "LOCAL", 65535: "INVALID_TYPE"},
}


def create(schema: str, indexes: tuple[str, ...] = ()) -> list[str]:
    """The statements that make the tables of ``schema``."""
    return [f"CREATE TABLE {line}" for line in schema.strip().splitlines()] + list(indexes)
