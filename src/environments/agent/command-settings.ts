/** Settings of programs that a worker starts itself, as `run` of an environment has them. */

export type Argv = [string, ...string[]];

export interface CommandSettings {
  /** Its key under `environments`, for messages. */
  name: string;
  command: Argv;
  setup: Argv | null;
  /** `diff`: what has become of the folder since `setup`. */
  submit: Argv | 'diff' | null;
  /** How long it may take, as a duration. */
  submit_time: string;
  env: Record<string, string>;
  /** Where programs are found unless `env` says it. */
  path: () => string;
  submit_path: () => string;
}
