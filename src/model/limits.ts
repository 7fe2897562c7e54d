/** The limits of a rollout that may be changed while it runs. */

/** Those that turns are played by; a turn's activity brings them to the journal. */
export interface TurnLimits {
  max_rollout_turns?: number;
  max_new_tokens?: number;
  max_seq_len?: number;
}

/** What an update changes; what it does not name stays. */
export interface LimitsChange extends TurnLimits {
  /** Of the whole rollout, from its first run's start. */
  rollout_timeout?: string;
}

/** What is in force. */
export type Limits = Required<LimitsChange>;
