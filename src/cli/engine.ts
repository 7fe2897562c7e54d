import { parseArgs } from 'node:util';
import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyClient } from '../client/policy-client.js';
import { connectPolicy } from '../client/policy-client.js';
import { policyTable } from '../client/policy-table.js';
import { UsageError } from '../platform/command.js';
import { describeError } from '../platform/errors.js';
import { plain, plainJson } from '../platform/plain.js';
import { DEFAULT_FILE, settingsNamed } from './arguments.js';
import { attend } from './engine-attend.js';
import { temporalSettings } from './temporal-settings.js';

const OPTIONS = {
  config: { type: 'string' },
  service: { type: 'string', default: 'default' },
  url: { type: 'string' },
  'control-url': { type: 'string' },
  instance: { type: 'string' },
  'drain-limit': { type: 'string', default: '1m' },
  force: { type: 'boolean', default: false },
} as const;

const VERBS = ['list', 'join', 'drain', 'leave', 'attend'] as const;
type Verb = (typeof VERBS)[number];

/** `engine list`, `join`, `drain`, `leave` and `attend`: which engines a service has. */
export async function engineCommand([verb = '', ...all]: string[]): Promise<number> {
  const at = all.indexOf('--');
  const [args, command] = at < 0 ? [all, []] : [all.slice(0, at), all.slice(at + 1)];
  const { values } = parseArgs({ args, options: OPTIONS });
  const { service, url } = values;
  if (!isVerb(verb))
    throw new UsageError(`expected engine ${VERBS.join('|')}, got ${JSON.stringify(verb)}`);
  if (verb !== 'list' && url === undefined) throw new UsageError('expected --url http://…/v1');
  if ((verb === 'attend') !== command.length > 0)
    throw new UsageError('expected a command behind --, of attend alone: -- vllm serve …');
  const { server, taskQueue: task_queue, services } = await temporalSettings(values.config);
  if (Object.keys(services).length > 0)
    settingsNamed(service, {
      among: services,
      what: 'service',
      file: values.config ?? DEFAULT_FILE,
    });
  const policy = await connectPolicy(server, { service, task_queue });
  const joins = {
    url: url ?? '',
    ...(values['control-url'] !== undefined && { control_url: values['control-url'] }),
    ...(values.instance !== undefined && { instance: values.instance }),
  };
  const { 'drain-limit': drain_limit, force } = values;
  try {
    if (verb === 'attend') return await attend(command, { policy, joins, drain_limit });
    if (verb === 'list') return await list(policy, service);
    const input = { join: joins, drain: { url, drain_limit, force }, leave: { url, force } }[verb];
    console.log(plainJson(JSON.stringify(await policy.update(verb, input), null, 2)));
    return 0;
  } catch (error) {
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : error;
    console.error(plain(describeError(cause)));
    return 1;
  } finally {
    await policy.close();
  }
}

const isVerb = (verb: string): verb is Verb => VERBS.some((one) => one === verb);

async function list(policy: PolicyClient, service: string): Promise<number> {
  try {
    console.log(policyTable(await policy.status(), Date.now()).join('\n'));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    console.log(
      `${service}: no policy workflow runs on this server: the engines are those of temporal.yaml, and those that the record in the store has`,
    );
  }
  return 0;
}
