import type { AskedSampling } from '../../model/calls/message.js';
import type { Body } from './reading.js';

/** What an agent asks for in vain, by field: it is taken note of. */

/** Fields that say nothing about the answer. */
const ASIDE = new Set([
  'user',
  'metadata',
  'store',
  'service_tier',
  'prompt_cache_key',
  'safety_identifier',
  'client_metadata',
]);

/** `read`: the fields that the dialect reads. */
export const ignoredIn = (body: Body, read: ReadonlySet<string>): Set<string> =>
  new Set(
    Object.keys(body).filter(
      (name) =>
        !read.has(name) && !ASIDE.has(name) && body[name] != null && !isUsual(name, body[name]),
    ),
  );

const isUsual = (name: string, value: unknown): boolean =>
  (name === 'n' && value === 1) ||
  name === 'parallel_tool_calls' ||
  (name === 'tool_choice' && (value === 'auto' || value === 'none'));

const MOST_NAMES = 32;

/** As calls have it. */
export const named = (names: ReadonlySet<string>): Pick<AskedSampling, 'ignored'> =>
  names.size === 0
    ? {}
    : { ignored: [...names].slice(0, MOST_NAMES).map((name) => name.slice(0, 64)) };
