/** How long the gateway waits for what. */
export const TIMES = {
  /**
   * How long a call waits for a worker that answers it. It gets no bytes meanwhile: after the headers of a stream no
   * redirect is possible, and some clients take 102 for the answer.
   */
  parked_ms: 60_000,
  /** How long a call goes on without a connection. */
  linger_ms: 30_000,
  /** How long a program may go on behind a limit. */
  overstay_ms: 30_000,
  /** Between two signs of life of a stream without news. */
  keep_alive_ms: 5000,
  /** How long a client may take nothing of what it was sent. */
  stalled_ms: 300_000,
  /** Behind a first fault; each later one waits twice as long. */
  retry_ms: 1000,
  /** For the body of a small request. */
  body_ms: 30_000,
};
export type GatewayTimes = typeof TIMES;
