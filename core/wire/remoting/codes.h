#pragma once
// Request codes of RocketMQ that are known here by name (remoting.md 2.1; RocketMQ 5.3 RequestCode). Response codes are Code of command.h.

#include <cstdint>

namespace fulmar::remoting {

enum class RequestCode : int32_t {
  SendMessage = 10,
  PullMessage = 11,
  QueryMessage = 12,
  QueryConsumerOffset = 14,
  UpdateConsumerOffset = 15,
  UpdateAndCreateTopic = 17,
  SearchOffsetByTimestamp = 29,
  GetMaxOffset = 30,
  GetMinOffset = 31,
  ViewMessageById = 33,
  HeartBeat = 34,
  UnregisterClient = 35,
  ConsumerSendMsgBack = 36,
  EndTransaction = 37,
  GetConsumerListByGroup = 38,
  NotifyConsumerIdsChanged = 40,   // from the broker
  LockBatchMq = 41,
  UnlockBatchMq = 42,
  CheckClientConfig = 46,
  GetRouteInfoByTopic = 105,
  GetBrokerClusterInfo = 106,
  SendMessageV2 = 310,
  SendBatchMessage = 320,
  LitePullMessage = 361,
};

}  // namespace fulmar::remoting
