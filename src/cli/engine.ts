import { UsageError } from '../platform/command.js';
import { FLAG, TEXT, printJson, optionsIn } from '../platform/arguments.js';
import { attend } from './engine-attend.js';
import { showStatus, withPolicy } from './policy.js';

const OPTIONS = {
  config: TEXT,
  service: { type: 'string', default: 'default' },
  url: TEXT,
  'control-url': TEXT,
  instance: TEXT,
  'drain-limit': { type: 'string', default: '1m' },
  force: FLAG,
} as const;

const VERBS = ['list', 'join', 'drain', 'leave', 'attend'] as const;

/** `engine list`, `join`, `drain`, `leave` and `attend`: which engines a service has. */
export async function engineCommand([name = '', ...all]: string[]): Promise<number> {
  const at = all.indexOf('--');
  const [args, command] = at < 0 ? [all, []] : [all.slice(0, at), all.slice(at + 1)];
  const values = optionsIn(args, OPTIONS);
  const { service, url = '', force, 'drain-limit': drain_limit } = values;
  const verb = VERBS.find((one) => one === name);
  if (verb === undefined)
    throw new UsageError(`expected engine ${VERBS.join('|')}, got ${JSON.stringify(name)}`);
  if (verb !== 'list' && url === '') throw new UsageError('expected --url http://…/v1');
  if ((verb === 'attend') !== command.length > 0)
    throw new UsageError(
      'expected a command after -- for attend, and for no other verb: -- vllm serve …',
    );
  const join = { url, control_url: values['control-url'], instance: values.instance };
  return await withPolicy(values, async (policy, base_urls) => {
    if (verb === 'attend') return await attend(command, { policy, joins: join, drain_limit });
    if (verb === 'list') await showStatus(policy, { service, base_urls });
    else {
      const input = { join, drain: { url, drain_limit, force }, leave: { url, force } }[verb];
      printJson(await policy.update(verb, input));
    }
    return 0;
  });
}
