#include "core/model/ignored_keys.h"

namespace fulmar {

namespace {

// clang-format off
constexpr IgnoredKeys kBrokerKeys[] = {
  // --- keys that promise something: only their harmless value is accepted ---
  {"brokerRole", "ASYNC_MASTER", "replication is not there yet: this broker is alone and acts as its own master"},
  {"haMasterAddress", "-", "replication is not there yet: there is no master to follow"},
  {"totalReplicas inSyncReplicas minInSyncReplicas", "1", "replication is not there yet: there is one copy of each message"},
  {"allAckInSyncStateSet enableAutoInSyncReplicas enableControllerMode enableElectUncleanMaster enableSlaveActingMaster asyncLearner",
   "false", "replication is not there yet: there is one copy of each message and no election"},
  {"controllerAddr", "-", "replication is not there yet: there is no controller to ask"},
  {"enableDLegerCommitLog enableDLedgerCommitLog", "false", "commit logs in DLedger's format are not supported"},
  {"dLegerGroup dLegerPeers dLegerSelfId", "-", "commit logs in DLedger's format are not supported"},
  {"aclEnable authenticationEnabled authorizationEnabled migrateAuthFromV1Enabled", "false",
   "access control is not there yet: everyone who reaches the port may send and consume"},
  {"tlsServerModeEnable tlsEnable useTLS enableSsl", "false", "TLS is not there yet: connections are plain"},
  {"storeType", "default", "queues are kept in plain files; RocksDB stores cannot be opened"},
  {"storePathCommitLog storePathConsumeQueue storePathIndex", "-", "files live under storePathRootDir; a second place is not supported yet"},
  {"readOnlyCommitLogStorePaths", "-", "the commit log lives in one directory"},
  {"brokerPermission", "6", "a broker reads and writes; other permissions are not there yet"},
  {"enableMultiDispatch enableLmq enableCompaction enableConsumeQueueExt", "false", "this kind of queue is not there yet"},
  {"rejectTransactionMessage duplicationEnable", "false", "nothing to switch: neither transactions nor duplication exist here yet"},

  // --- store ---
  {"destroyMapedFileIntervalForcibly redeleteHangedFileInterval deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval "
   "deleteFileBatchMax maxBatchDeleteFilesNum cleanResourceInterval",
   "", "expired files go one after the other, off the loop, each when its last reader is done"},
  {"enableCleanExpiredOffset", "", "committed offsets are kept"},
  {"flushCommitLogLeastPages flushCommitLogThoroughInterval flushCommitLogTimed flushConsumeQueueLeastPages "
   "commitIntervalCommitLog commitCommitLogLeastPages commitCommitLogThoroughInterval wakeFlushWhenPutMessage enableRunningFlagsInFlush",
   "", "each flush covers all unflushed bytes and starts by itself: flushIntervalCommitLog and asyncUnflushedBytesMax bound it"},
  {"transientStorePoolEnable transientStorePoolSize fastFailIfNoBufferInStorePool writeWithoutMmap putConsumeQueueDataByFileChannel "
   "mappedFileSwapEnable warmMapedFileEnable flushLeastPagesWhenWarmMapedFile dataReadAheadEnable coldDataFlowControlEnable",
   "", "files are mapped, prepared ahead of the writer and warmed off the loop: there is no second buffer to configure"},
  {"accessMessageInMemoryMaxRatio maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInMemory maxTransferBytesOnMessageInDisk "
   "maxTransferCountOnMessageInDisk transferMsgByHeap",
   "", "a pull is bounded by what it asks for; messages leave straight from the mapping, warmed first when cold"},
  {"useReentrantLockWhenPutMessage useABSLock topicQueueLockNum putMessageTimeout osPageCacheBusyTimeOutMills maxAsyncPutMessageRequests debugLockEnable",
   "", "one loop writes the log: there is no lock to choose; a full queue refuses with its cause"},
  {"checkCRCOnRecover forceVerifyPropCRC recoverConcurrently maxRecoveryCommitlogFiles enableAcceleratedRecovery messageIndexSafe "
   "recheckReputOffsetFromCq maxChecksumRange disappearTimeAfterStart",
   "", "recovery always verifies what it keeps"},
  {"enableBuildConsumeQueueConcurrently batchDispatchRequestThreadPoolNums readUnCommitted travelCqFileNumWhenGetMessage maxConsumeQueueScan "
   "sampleCountThreshold bitMapLengthConsumeQueueExt mappedFileSizeConsumeQueueExt mapperFileSizeBatchConsumeQueue searchBcqByCacheEnable "
   "correctLogicMinOffsetSleepInterval correctLogicMinOffsetForceInterval maxLmqConsumeQueueNum autoMessageVersionOnTopicLen",
   "", "queues are built by the one dispatcher, in order"},
  {"rocksdbFlushWalFrequency rocksdbCQDoubleWriteEnable cleanRocksDBDirtyCQIntervalMin combineCQPreferCQType combineCQLoadingCQTypes "
   "combineAssignOffsetCQType compactionMappedFileSize compactionCqMappedFileSize configManagerVersion",
   "", "queues are kept in plain files"},
  {"flushConsumerOffsetInterval flushConsumerOffsetHistoryInterval flushDelayOffsetInterval consumerOffsetUpdateVersionStep delayOffsetUpdateVersionStep",
   "", "topics and offsets are records of the log; the JSON files are exports of it"},
  {"defaultQueryMaxNum pullBatchMaxMessageCount maxFilterMessageSize maxMsgsNumBatch", "", "bounds of requests are fixed"},
  {"storePathEpochFile storePathBrokerIdentity replicasPerDiskPartition logicalDiskSpaceCleanForciblyThreshold", "", "this file or rule does not exist here"},

  // --- replication ---
  {"haListenPort haSendHeartbeatInterval haHousekeepingInterval haTransferBatchSize haMaxGapNotInSync haFlowControlEnable "
   "maxHaTransferByteInSecond haMaxTimeSlaveNotCatchup slaveTimeout syncFromLastFile maxSlaveResendLength syncMasterFlushOffsetWhenStartup "
   "offsetCheckInSlave slaveReadEnable brokerHeartbeatInterval controllerHeartBeatTimeoutMills syncBrokerMetadataPeriod checkSyncStateSetPeriod "
   "syncControllerMetadataPeriod brokerNotActiveTimeoutMillis compatibleWithOldNameSrv enableRemoteEscape skipPreOnline brokerElectionPriority",
   "", "replication is not there yet: this broker is alone"},

  // --- delay, transactions, POP, filters ---
  {"messageDelayLevel enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked timerWheelEnable "
   "timerRollWindowSlot timerMaxDelaySec timerGetMessageThreadNum timerPutMessageThreadNum timerCongestNumEachSlot timerEnableRetryUntilSuccess "
   "timerSkipUnknownError timerStopEnqueue timerStopDequeue timerWarmEnable timerPrecisionMs timerFlushIntervalMs timerInterceptDelayLevel "
   "mappedFileSizeTimerLog enableTimerMessageOnRocksDB",
   "", "delayed messages are not there yet"},
  {"transactionTimeOut transactionCheckMax transactionCheckInterval transactionOpMsgMaxSize transactionOpBatchInterval transactionMetricFlushInterval "
   "endTransactionThreadPoolNums endTransactionPoolQueueCapacity",
   "", "transactions are not there yet"},
  {"reviveQueueNum reviveInterval reviveMaxSlow reviveScanTime popCkStayBufferTime popCkStayBufferTimeOut popLongPollingForceNotifyInterval "
   "popPollingSize popPollingMapSize popResponseReturnActualRetryTopic popFromRetryProbability popConsumerKVServiceEnable popInflightMessageThreshold "
   "enablePopMessageThreshold enablePopBufferMerge enablePopLog enableRetryTopicV2 initPopOffsetByCheckMsgInMem skipWhenCKRePutReachMaxTimes "
   "enableSkipLongAwaitingAck ackMessageThreadPoolNums ackThreadPoolQueueCapacity recallMessageEnable",
   "", "POP consumption is not there yet"},
  {"enablePropertyFilter enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter filterDataCleanTimeSpan filterSupportRetry filterServerNums",
   "", "messages are filtered by tag; SQL filters are not there yet"},
  {"serverLoadBalancerEnable realTimeNotifyConsumerChange enableBroadcastOffsetStore broadcastOffsetExpireSecond broadcastOffsetExpireMaxSecond "
   "subscriptionExpiredTimeout channelExpiredTimeout consumerFallbehindThreshold disableConsumeIfConsumerReadSlowly useServerSideResetOffset "
   "rejectPullConsumerEnable lockInStrictMode litePullMessageEnable defaultMessageRequestMode defaultPopShareQueueNum autoCreateSubscriptionGroup",
   "", "consumer groups are pulled and committed; group management is not there yet"},

  // --- server ---
  {"sendMessageThreadPoolNums pullMessageThreadPoolNums litePullMessageThreadPoolNums putMessageFutureThreadPoolNums queryMessageThreadPoolNums "
   "adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums processReplyMessageThreadPoolNums heartbeatThreadPoolNums "
   "recoverThreadPoolNums loadBalanceThreadPoolNums serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads clientWorkerThreads "
   "clientCallbackExecutorThreads useEpollNativeSelector serverPooledByteBufAllocatorEnable clientPooledByteBufAllocatorEnable brokerFastFailureEnable",
   "", "one loop serves the broker: there are no thread pools to size"},
  {"sendThreadPoolQueueCapacity putThreadPoolQueueCapacity pullThreadPoolQueueCapacity litePullThreadPoolQueueCapacity replyThreadPoolQueueCapacity "
   "queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity "
   "adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity waitTimeMillsInSendQueue waitTimeMillsInPullQueue "
   "waitTimeMillsInLitePullQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInTransactionQueue waitTimeMillsInAckQueue startAcceptSendRequestTimeStamp",
   "", "queues have fixed bounds, and a full one answers SYSTEM_BUSY with its cause"},
  {"serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds serverSocketSndBufSize serverSocketRcvBufSize "
   "serverSocketBacklog writeBufferHighWaterMark writeBufferLowWaterMark clientOnewaySemaphoreValue clientAsyncSemaphoreValue connectTimeoutMillis "
   "channelNotActiveInterval clientChannelMaxIdleTimeSeconds clientSocketSndBufSize clientSocketRcvBufSize enableDetailStat",
   "", "sockets are tuned by the kernel, and per-connection bounds are fixed"},
  {"longPollingEnable shortPollingTimeMills notifyConsumerIdsChangedEnable highSpeedMode", "", "a pull waits for as long as it asks to"},
  {"registerBrokerTimeoutMills forceRegister enableSingleTopicRegister enableSplitRegistration splitRegistrationSize useStaticNameServerConfig "
   "fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup namesrvDomain rmqAddressServerDomain rmqAddressServerSubGroup delayOfflineBrokerIntervalMs "
   "isInBrokerContainer brokerIP2",
   "", "a broker registers at each address of namesrvAddr, whole tables at a change and heartbeats between"},
  {"clusterTopicEnable brokerTopicEnable traceTopicEnable msgTraceTopicName storeReplyMessageEnable enableMixedMessageType autoDeleteUnusedStats "
   "messageStorePlugIn metricsGrpcExporterTarget rocketmqHome traceOn "
   "enableTopicTraceOn accountStatsEnable regionId configBlackList allowUseMemoryMappedFile validateSystemTopicWhenUpdateTopic",
   "", "this has no counterpart here"},
};

constexpr IgnoredKeys kNameServerKeys[] = {
  {"tlsServerModeEnable tlsEnable useTLS enableSsl", "false", "TLS is not there yet: connections are plain"},
  {"enableControllerInNamesrv", "false", "replication is not there yet: there is no controller"},
  {"rocketmqHome kvConfigPath configStorePath productEnvName clusterTest orderMessageEnable returnOrderTopicConfigToBroker configBlackList",
   "", "this has no counterpart here"},
  {"defaultThreadPoolNums clientRequestThreadPoolNums defaultThreadPoolQueueCapacity clientRequestThreadPoolQueueCapacity serverWorkerThreads "
   "serverCallbackExecutorThreads serverSelectorThreads serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds "
   "serverSocketSndBufSize serverSocketRcvBufSize serverSocketBacklog serverPooledByteBufAllocatorEnable useEpollNativeSelector",
   "", "one loop serves the name server: there are no pools or sockets to size"},
  {"scanNotActiveBrokerInterval unRegisterBrokerQueueCapacity notifyMinBrokerIdChanged supportActingMaster enableAllTopicList enableTopicList "
   "deleteTopicWithBrokerRegistration needWaitForService waitSecondsForService",
   "", "the table of brokers has fixed rules: a silent broker leaves after brokerExpiry"},
};
// clang-format on

}  // namespace

std::span<const IgnoredKeys> ignored_broker_keys() { return kBrokerKeys; }
std::span<const IgnoredKeys> ignored_name_server_keys() { return kNameServerKeys; }

}  // namespace fulmar
