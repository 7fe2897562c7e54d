/** For connections to a server of this machine: no proxy, and fast reconnection after a restart. */
export const LOOPBACK_CHANNEL = {
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1000,
};
