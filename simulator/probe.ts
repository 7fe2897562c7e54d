/**
 * The sessions with which a client asks for the mode of logprobs, or for the weights. Logs and counts of generations
 * leave them out, and faults hit them only by name.
 */
export const isProbe = (session_id: string | null): boolean =>
  session_id === 'probe' || session_id === 'weights-probe';
