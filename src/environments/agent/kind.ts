import path from 'node:path';
import { bytesOf } from '../../platform/size.js';
import { keepSecret } from '../../platform/secrets.js';
import type { ExactEnvironment, Program } from '../environment.js';
import { createHttpCall } from '../http/call.js';
import { defineKind, type EnvironmentContext } from '../kind.js';
import { answersNoTurn, callRules } from './call-settings.js';
import { type Argv, createCommand } from './command.js';
import { withHere } from './placeholders.js';
import { createService } from './service.js';
import { createPrograms } from '../../sandbox/programs/programs.js';
import { variablesWith } from '../../sandbox/programs/view.js';
import { createUnconfined } from '../../sandbox/programs/unconfined.js';
import { AgentSettings } from './settings.js';

/** 1 MiB of what a program returns, and what the protocol says around it. */
const MOST_ANSWER = 2 ** 20 + 2 ** 16;
/** Shorter than servers keep idle connections. */
const KEEP_ALIVE_MS = 1000;
const TIMEOUT_MS = 30_000;

export const agent = defineKind({
  settings: AgentSettings,
  answers: ({ run }) => (run.url === null ? 'on this machine' : 'a service'),
  roles: [],
  resolve: (settings, directory) => ({ ...settings, run: resolved(settings.run, directory) }),
  make: createAgent,
});

function resolved(run: AgentSettings['run'], directory: string): AgentSettings['run'] {
  const here = (text: string): string => withHere(text, directory);
  const file = (mount: string): string => path.resolve(directory, here(mount));
  const all = <T extends Argv | null>(argv: T): T => (argv?.map(here) ?? null) as T;
  return {
    ...run,
    command: all(run.command),
    setup: all(run.setup),
    submit: run.submit === 'diff' ? run.submit : all(run.submit),
    env: Object.fromEntries(Object.entries(run.env).map(([name, text]) => [name, here(text)])),
    mounts: run.mounts.map(file),
    submit_mounts: run.submit_mounts.map(file),
  };
}

type Context = Pick<EnvironmentContext, 'answers' | 'name' | 'env' | 'report'>;

function createAgent(settings: AgentSettings, context: Context): ExactEnvironment {
  const { close, ...programs } =
    settings.run.command === null
      ? serviceOf(settings, context)
      : commandOf(settings, { ...context, command: settings.run.command });
  const { run } = settings.limits;
  const rules = { ...callRules(settings, settings), asks_policy: true, run };
  return {
    program: { ...programs, rules },
    health: programs.health,
    step: answersNoTurn,
    close,
  };
}

type Programs = Omit<Program, 'rules'> & { close: () => Promise<void> };

function serviceOf(settings: AgentSettings, context: Context): Programs {
  const url = settings.run.url ?? '';
  const { send, close } = createHttpCall({
    url,
    timeout_ms: TIMEOUT_MS,
    max_answer_bytes: MOST_ANSWER,
    answers: context.answers,
    keep_alive_ms: KEEP_ALIVE_MS,
  });
  return { ...createService({ url, headers: headersOf(settings, context), send }), close };
}

function commandOf(
  { run, limits: { submit: submit_time } }: AgentSettings,
  { name, report, command }: Context & { command: Argv },
): Programs {
  const { setup, submit, env, sandbox, mounts, submit_mounts, memory, processes, disk } = run;
  const limits = { memory: bytesOf(memory), processes, disk: bytesOf(disk) };
  const create = sandbox === 'none' ? createUnconfined : createPrograms;
  const confinement = create({ name, mounts, submit_mounts, limits, report });
  const pathWith = (seen: readonly string[]): string =>
    (sandbox === 'none' ? process.env : variablesWith(seen))['PATH'] ?? '';
  // Their folders may be made meanwhile.
  const commands = {
    ...{ name, command, setup, submit, submit_time, env },
    path: () => pathWith(mounts),
    submit_path: () => pathWith([...submit_mounts, ...mounts]),
  };
  return { ...createCommand(commands, confinement), close: confinement.close };
}

/** Each value is a secret: who may start runs may run programs. */
function headersOf(
  { run: { headers_env } }: AgentSettings,
  { env, name }: Context,
): Record<string, string> {
  if (headers_env === null) return {};
  const where = `environments.${name}.run.headers_env: expected the environment variable ${headers_env} to hold`;
  const lines = (env(headers_env) ?? '').split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) throw new Error(`${where} headers, it is not set`);
  return Object.fromEntries(
    lines.map((line) => {
      const [, header = '', value = ''] =
        /^([\w-]+): *([\x21-\x7e][\x20-\x7e]*)\r?$/.exec(line) ?? [];
      if (header === '') throw new Error(`${where} \`name: value\`, one a line, got another text`);
      for (const secret of [value, value.replace(/^\w+ +/, '')]) keepSecret(secret);
      return [header.toLowerCase(), value];
    }),
  );
}
