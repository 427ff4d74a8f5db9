#include "net/facade/convert.h"
#include "net/facade/engine.h"

namespace fulmar::v1 {
namespace {

// Posts what has a slot; `on_receipt` runs on the loop thread.
void post(const std::shared_ptr<Engine>& engine, const OutgoingPtr& message, Engine::OnReply on_reply) {
  engine->post([message] { return message->command(); }, std::move(on_reply));
}

// Takes a slot for it, or says why not.
template <class Made>
Result<OutgoingPtr> admit(Engine& engine, Made made, WhenFull when_full) {
  if (!made) return made.refusal();
  if (auto full = engine.take_slot((*made)->bytes(), when_full)) return *full;
  return OutgoingPtr(std::move(*made));
}

}  // namespace

Producer::Producer(Client& client) : engine_(client.engine_) {}

namespace {

Result<SendReceipt> send_and_wait(const std::shared_ptr<Engine>& engine, const Result<OutgoingPtr>& admitted) {
  if (!admitted) return admitted.refusal();
  const OutgoingPtr& message = *admitted;
  fulmar::Reply reply = engine->call([message] { return message->command(); });
  engine->give_slot(message->bytes());
  return receipt(*message, std::move(reply));
}

}  // namespace

Result<SendReceipt> Producer::send(const Message& message, WhenFull when_full) {
  if (auto why = engine_->unusable()) return *why;
  return send_and_wait(engine_, admit(*engine_, outgoing(message, engine_->options()), when_full));
}

Result<SendReceipt> Producer::send_batch(std::span<const Message> messages, WhenFull when_full) {
  if (auto why = engine_->unusable()) return *why;
  return send_and_wait(engine_, admit(*engine_, outgoing_batch(messages, engine_->options()), when_full));
}

Result<void> Producer::send_async(const Message& message, Callback callback, WhenFull when_full) {
  if (auto why = engine_->unusable()) return *why;
  const Result<OutgoingPtr> admitted = admit(*engine_, outgoing(message, engine_->options()), when_full);
  if (!admitted) return admitted.refusal();
  // The slot is given back behind the callback: a slow one slows its senders down, not the memory up.
  post(engine_, *admitted, [engine = engine_, message = *admitted, callback = std::move(callback)](fulmar::Reply reply) {
    engine->run_on_pool([engine, message, callback, reply = std::move(reply)]() mutable {
      callback(receipt(*message, std::move(reply)));
      engine->give_slot(message->bytes());
    });
  });
  return {};
}

std::future<Result<SendReceipt>> Producer::send_async(const Message& message, WhenFull when_full) {
  auto promise = std::make_shared<std::promise<Result<SendReceipt>>>();
  std::future<Result<SendReceipt>> future = promise->get_future();
  if (auto why = engine_->unusable()) return promise->set_value(*why), std::move(future);
  const Result<OutgoingPtr> admitted = admit(*engine_, outgoing(message, engine_->options()), when_full);
  if (!admitted) return promise->set_value(admitted.refusal()), std::move(future);
  post(engine_, *admitted, [engine = engine_, message = *admitted, promise](fulmar::Reply reply) {
    engine->complete([engine, message, promise, reply = std::move(reply)]() mutable {
      engine->give_slot(message->bytes());
      promise->set_value(receipt(*message, std::move(reply)));
    });
  });
  return future;
}

Result<void> Producer::send_one_way(const Message& message, WhenFull when_full) {
  if (auto why = engine_->unusable()) return *why;
  Result<std::shared_ptr<Outgoing>> made = outgoing(message, engine_->options());
  if (made) (*made)->is_one_way = true;
  const Result<OutgoingPtr> admitted = admit(*engine_, std::move(made), when_full);
  if (!admitted) return admitted.refusal();
  const fulmar::Reply reply = engine_->call([message = *admitted] { return message->command(); });
  engine_->give_slot((*admitted)->bytes());
  if (std::holds_alternative<reply::Ok>(reply)) return {};
  return refusal(reply);
}

}  // namespace fulmar::v1
