/** The command line was not understood: exit code 2. */
export class UsageError extends Error {}

/** A command of `temporal-rollout`. Its code is loaded on use, so `--help` loads no Temporal worker. */
export interface Command {
  usage: string;
  /** Returns the exit code. */
  load(): Promise<(args: string[]) => Promise<number>>;
}

/** Whether arguments ask for help: `--help`, and Gym's `+help=true` and `+h=true`. */
export const asksForHelp = (args: readonly string[]): boolean =>
  args.some((argument) => /^(?:-h|--help|\+{0,2}(?:h|help)=(?:true|1|yes|on))$/i.test(argument));
