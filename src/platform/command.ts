/** The command line was not understood: exit code 2. */
export class UsageError extends Error {}

/** A command of `temporal-rollout`. Its code is loaded on use, so `--help` loads no Temporal worker. */
export interface Command {
  usage: string;
  /** The exit code of a failure; absent: 1. */
  failure_code?: 2;
  /** Returns the exit code. */
  load(): Promise<(args: string[]) => Promise<number>>;
}

/** Whether arguments ask for help: `--help`, and Gym's `+help=true` and `+h=true`. */
export const asksForHelp = (args: readonly string[]): boolean =>
  args.some((argument) => /^(?:-h|--help|\+{0,2}(?:h|help)=(?:true|1|yes|on))$/i.test(argument));

/** A word of a line that a shell reads. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** A command to copy. It repeats the user's `--config FILE`; without one the command finds the same default. */
export const commandLine = (words: string, config: string | undefined): string =>
  `temporal-rollout ${words}${config === undefined ? '' : ` --config ${shellWord(config)}`}`;
