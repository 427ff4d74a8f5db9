#pragma once
// How far the log has come: one writer each, everybody reads. dispatched <= visible <= appended, flushed <= appended.

#include "core/model/ids.h"

namespace fulmar {

struct Watermarks {
  PhysicalOffset begin;       // commit log: the oldest byte
  PhysicalOffset appended;    // commit log: in memory
  PhysicalOffset flushed;     // flusher: durable here
  PhysicalOffset confirmed;   // replication; without replicas it follows what the flush type asks for
  PhysicalOffset dispatched;  // dispatch: visible in queues
  PhysicalOffset derived;     // rounds: everything derived from records below is durable in its own files
};

}  // namespace fulmar
