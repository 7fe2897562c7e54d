/** The limits of an agent's calls. null: no limit. */
export interface AgentLimits {
  /** Answers of one rollout, in all its lives. */
  calls: number | null;
  /** Calls of one life at the same time; others wait. */
  parallel: number;
  sequences: number | null;
  sampled_tokens: number | null;
  /** Bytes of a request. */
  body: number;
  /** How long one call may wait and generate. */
  call_ms: number;
}
