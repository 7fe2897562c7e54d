import { Fault } from '../../model/faults.js';
import { toMs } from '../../model/workflow-safe/durations.js';
import { bytesOf } from '../../platform/size.js';
import { keepSecret } from '../../platform/secrets.js';
import type { EnvironmentContext } from '../environment-context.js';
import type { ExactEnvironment, ProgramRules } from '../environment.js';
import { createHttpCall } from '../http/call.js';
import { defineKind } from '../kind.js';
import { createService } from './service.js';
import { AgentSettings } from './settings.js';

/** 1 MiB of what a program returns, and what the protocol says around it. */
const MOST_ANSWER = 2 ** 20 + 2 ** 16;
/** Shorter than servers keep idle connections. */
const KEEP_ALIVE_MS = 1000;
const TIMEOUT_MS = 30_000;

export const agent = defineKind({
  settings: AgentSettings,
  answers: () => 'a service',
  roles: [],
  make: createAgent,
});

function createAgent(
  settings: AgentSettings,
  context: Pick<EnvironmentContext, 'answers' | 'name' | 'env'>,
): ExactEnvironment {
  const { url } = settings.run;
  const { send, close } = createHttpCall({
    url,
    timeout_ms: TIMEOUT_MS,
    max_answer_bytes: MOST_ANSWER,
    answers: context.answers,
    keep_alive_ms: KEEP_ALIVE_MS,
  });
  const service = createService({ url, headers: headersOf(settings, context), send });
  return {
    program: { ...service, rules: rulesOf(settings) },
    health: service.health,
    step: () => {
      const message = 'a program plays whole rollouts: it answers no single turn';
      return Promise.reject(new Fault({ type: 'EnvironmentRejected', message }));
    },
    close,
  };
}

function rulesOf({
  verify,
  dialect_defaults: { tool_parser, reasoning_parser },
  history,
  restart,
  structured,
  limits: { body, call, run, ...limits },
}: AgentSettings): ProgramRules {
  return {
    program: { verify, tool_parser, reasoning_parser: reasoning_parser ?? 'none', history },
    restart,
    structured,
    limits: { ...limits, body: bytesOf(body), call_ms: toMs(call) },
    run,
  };
}

/** Each value is a secret: who may start runs may run programs. */
function headersOf(
  { run: { headers_env } }: AgentSettings,
  { env, name }: Pick<EnvironmentContext, 'env' | 'name'>,
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
