/** A command line that is not understood: exit code 2. */
export class UsageError extends Error {}

/** A command of `temporal-rollout`, loaded when it is asked for: `--help` loads no Temporal worker. */
export interface Command {
  usage: string;
  /** Returns the exit code. */
  load(): Promise<(args: string[]) => Promise<number>>;
}
