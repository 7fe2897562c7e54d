/** The command line was not understood: exit code 2. */
export class UsageError extends Error {}

/** A command of `temporal-rollout`. Its code is loaded on use, so `--help` loads no Temporal worker. */
export interface Command {
  usage: string;
  /** Returns the exit code. */
  load(): Promise<(args: string[]) => Promise<number>>;
}
