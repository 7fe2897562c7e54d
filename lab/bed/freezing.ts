/** A process that may be frozen; it keeps its connections. */
export interface Freezing {
  pause: () => void;
  resume: () => void;
}

/** `pid`: of the one that runs then. */
export const freezing = (pid: () => number): Freezing => ({
  pause: () => {
    process.kill(pid(), 'SIGSTOP');
  },
  resume: () => {
    process.kill(pid(), 'SIGCONT');
  },
});
