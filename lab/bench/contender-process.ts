import { fork } from 'node:child_process';

/** A process of the bench that handles one request at a time. */
export interface ContenderProcess<Question> {
  pid: number;
  /** Resolves with the process's answer; rejects with its error, or when it ends. */
  ask(question: Question): Promise<unknown>;
  stop(): Promise<void>;
}

interface Answer {
  value?: unknown;
  error?: string;
}

const GRACE_MS = 8000;

/** Starts a module of the bench; resolves when the module reports that it is ready. */
export async function startProcess<Question>(
  module: URL,
  args: readonly string[],
): Promise<ContenderProcess<Question>> {
  const child = fork(module, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${module.pathname} cannot be started`);
  const exited = new Promise<void>((resolve) =>
    child.once('exit', () => {
      resolve();
    }),
  );
  const ended = exited.then(() => {
    throw new Error(`${module.pathname} ended with exit code ${child.exitCode ?? 'none'}`);
  });
  ended.catch(() => undefined);
  const answer = async (): Promise<unknown> => {
    const arrived = new Promise<Answer>((resolve) => child.once('message', resolve));
    const { value, error } = await Promise.race([arrived, ended]);
    if (error !== undefined) throw new Error(error);
    return value;
  };
  await answer();
  return {
    pid,
    ask: (question) => {
      const answered = answer();
      child.send(question as object);
      return answered;
    },
    stop: async () => {
      if (child.connected) child.disconnect();
      const timer = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
      await exited;
      clearTimeout(timer);
    },
  };
}

/** The process's side: reports that it is ready, answers, and ends when its parent closes the pipe or dies. */
export function serveParent(
  answer: (question: unknown) => Promise<unknown>,
  close: () => Promise<void>,
): void {
  const send = (message: Answer): void => {
    process.send?.(message);
  };
  process.on('message', (question) => {
    answer(question).then(
      (value) => {
        send({ value });
      },
      (error: unknown) => {
        send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
      },
    );
  });
  process.once('disconnect', () => {
    void close().finally(() => process.exit(0));
  });
  send({});
}
