/**
 * The sessions under which a client asks what the engine's numbers mean, or whose weights it has. Logs and counts
 * of generations leave it out, and no fault hits it that does not name it.
 */
export const isProbe = (session_id: string | null): boolean =>
  session_id === 'probe' || session_id === 'weights-probe';
