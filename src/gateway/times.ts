/** How long the gateway waits for what. */
export interface GatewayTimes {
  /** How long a call without a holder waits for one. */
  parked_ms: number;
  /** How long a call goes on without a connection. */
  linger_ms: number;
  /** How long a program may go on behind a limit. */
  overstay_ms: number;
  /** Between two signs of life of a stream without news. */
  keep_alive_ms: number;
  /** For the body of a small request. */
  body_ms: number;
}

export const TIMES: GatewayTimes = {
  parked_ms: 4000,
  linger_ms: 30_000,
  overstay_ms: 30_000,
  keep_alive_ms: 5000,
  body_ms: 30_000,
};
