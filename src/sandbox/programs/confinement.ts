import type { Server } from 'node:net';

/** What is around the programs that a worker starts itself, as `run.sandbox` says. */

export interface Confinement {
  /** Rejects with an `EnvironmentUnavailable` fault, with reason and remedy, if this host cannot start programs so. */
  health: (signal: AbortSignal) => Promise<void>;
  /** A life's folder and what is around it, in which nothing runs yet. Throws the faults of a step. */
  open: (signal: AbortSignal) => Promise<Confined>;
  close: () => Promise<void>;
}

/** The lives that are open, so that all can be ended. */
export function keepOpen() {
  const open = new Set<Confined>();
  return {
    add: (life: Confined): Confined => {
      open.add(life);
      const remove = async (): Promise<void> => {
        await life.remove();
        open.delete(life);
      };
      return { ...life, remove };
    },
    close: async (): Promise<void> => {
      await Promise.all([...open].map(({ remove }) => remove()));
    },
  };
}

export interface ConfinementOptions {
  /** Its key under `environments`, for messages. */
  name: string;
  /** Absolute paths that programs may read, and those that `submit` alone may. */
  mounts: readonly string[];
  submit_mounts: readonly string[];
  limits: ProgramLimits;
  /** Says something to the operator: the level of confinement, what cannot be removed. */
  report: (message: string) => void;
}

/** Of all processes of a life together; sizes in bytes, threads are processes. */
export interface ProgramLimits {
  memory: number;
  processes: number;
  disk: number;
}

/**
 * Whose command it is. `setup` and the program work in the life's folder. `submit` reads it from a home of its own, and
 * so does `patch`, which sees `kept`, too, and no mount. Each but the program begins with an empty home and `/tmp`, and
 * has no way to the policy.
 */
export type Part = 'setup' | 'program' | 'submit' | 'patch';

export interface Confined {
  /** As its commands see it; empty at first. */
  folder: string;
  /** What `patch` alone sees, and can write. */
  kept: string;
  python: string;
  /** What a command needs to find itself: `PATH`, `HOME`, `TMPDIR`, `LANG`. Nothing of the worker's. */
  variables: (part: Part) => Readonly<Record<string, string>>;
  /** null: programs in it reach the worker's own listener, with the key of their life. */
  door: Door | null;
  /** Starts a command, one after the other. Throws `EnvironmentRejected` if there is no such program. */
  start: (command: Command) => Promise<RunningCommand>;
  /** Ends what runs in it, and removes it. May be called more than once. Never rejects. */
  remove: () => Promise<void>;
}

/** A way to the policy that only programs of this life have. */
export interface Door {
  /** As they see it, with `/v1`: `http://127.0.0.1:8088/v1`. */
  base_url: string;
  /** No secret: `rollout`. */
  key: string;
  /** Only the life's programs reach it, so they need no key. It is closed by the one who has opened it. */
  server: Server;
}

export interface Command {
  /** Default: the program. */
  part?: Part;
  argv: readonly [string, ...string[]];
  env: Readonly<Record<string, string>>;
  /** Its standard input; it is empty if there is none. */
  input?: string;
  /** Bytes of its standard output that are kept, from its beginning; default none. */
  most_output?: number;
}

export interface RunningCommand {
  /** Resolves when nothing of it lives, also nothing that it has left in the background. */
  ended: Promise<Ended>;
  /** The end of what it has printed so far, standard output and error together, some thousand characters. */
  tail: () => string;
  end: () => void;
}

export interface Ended {
  code: number | null;
  signal: string | null;
  /** The limit that ended it, as a sentence with its number; null: none did. */
  excess: string | null;
  /** The beginning of its standard output. */
  output: Buffer;
  is_cut: boolean;
}
