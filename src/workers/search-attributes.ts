import type { NativeConnection } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { SearchAttribute } from '../model/workflow-safe/search-attributes.js';
import { SEARCH_ATTRIBUTES } from '../model/workflow-safe/search-attributes.js';
import { describeError } from '../platform/errors.js';
import { keepLooking } from './keep-looking.js';

/** temporal.api.enums.v1.IndexedValueType. */
const INDEXED_VALUE_TYPE = { KEYWORD: 2, INT: 3, DOUBLE: 4 } as const;
const CLI_TYPE = { KEYWORD: 'Keyword', INT: 'Int', DOUBLE: 'Double' } as const;
/** Status codes of gRPC. The server answers the first where there is no slot left of the type. */
const [INVALID_ARGUMENT, ALREADY_EXISTS] = [3, 6];

const RECHECK_MS = 15_000;

export type KnownAttributes = Awaited<ReturnType<typeof knowAttributes>>;

type Operators = Pick<NativeConnection, 'operatorService'>;

/**
 * Registers the search attributes that the namespace lacks: the workflow task of an upsert that it does not know fails.
 * Those without room are done without. If the server refuses for another reason, the error contains the commands for an
 * operator; a process without workflows (`upserts`) does without them too.
 */
export async function knowAttributes(
  { operatorService }: Operators,
  { namespace, upserts, log }: { namespace: string; upserts: boolean; log: Log },
) {
  let unlisted: readonly string[] = [];
  const look = async (): Promise<void> => {
    const { added, roomless } = await addMissing({ operatorService }, namespace);
    if (added.length > 0) log.info({ added }, 'registered search attributes');
    const isNews = roomless.some(({ name }) => !unlisted.includes(name));
    unlisted = roomless.map(({ name }) => name);
    if (isNews) log.warn(withoutText(roomless, namespace));
  };
  await look().catch((error: unknown) => {
    if (upserts) throw error;
    log.debug(`search attributes not checked: ${describeError(error)}`);
  });
  return {
    /** Attributes that the namespace has no room for: rollouts are played without them. */
    unlisted: () => unlisted,
    look,
  };
}

type Log = Pick<Logger, 'info' | 'warn' | 'debug'>;

/**
 * Looks again when the namespace is another one: its server has a new database. A look at the attributes themselves
 * leaves a connection open in some servers (temporalio/temporal#11289). Returns what ends it.
 */
export async function keepAttributes(
  { workflowService }: Pick<NativeConnection, 'workflowService'>,
  { namespace, attributes, log }: { namespace: string; attributes: KnownAttributes; log: Log },
): Promise<() => void> {
  const idNow = async (): Promise<string> =>
    (await workflowService.describeNamespace({ namespace })).namespaceInfo?.id ?? '';
  let known = await idNow().catch(() => '');
  const lookIfNew = async (): Promise<void> => {
    const id = await idNow();
    if (id === known) return;
    await attributes.look();
    known = id;
  };
  return keepLooking(lookIfNew, {
    every_ms: RECHECK_MS,
    failed: (why) => {
      log.warn(`search attributes not checked: ${why}`);
    },
  });
}

/** Without room: those without a free slot, and those that somebody has with another type. */
async function addMissing(
  { operatorService }: Operators,
  namespace: string,
): Promise<{ added: string[]; roomless: readonly SearchAttribute[] }> {
  const { missing, taken } = await lookAtAttributes({ operatorService }, namespace);
  const add = async (attributes: readonly SearchAttribute[]): Promise<number | null> => {
    const searchAttributes = Object.fromEntries(
      attributes.map(({ name, type }) => [name, INDEXED_VALUE_TYPE[type]]),
    );
    try {
      await operatorService.addSearchAttributes({ namespace, searchAttributes });
      return null;
    } catch (cause) {
      const { code } = Object(cause) as { code?: number };
      if (code === INVALID_ARGUMENT || code === ALREADY_EXISTS) return code;
      const what = `the server does not let this worker add what namespace ${namespace} lacks, the search attributes`;
      throw refused(what, { cause, namespace, attributes: missing });
    }
  };
  if (missing.length === 0 || (await add(missing)) === null)
    return { added: missing.map(({ name }) => name), roomless: taken };
  // It adds all or none.
  const roomless = [...taken];
  const added: string[] = [];
  for (const one of missing) {
    const refusal = await add([one]);
    if (refusal === INVALID_ARGUMENT) roomless.push(one);
    if (refusal === null) added.push(one.name);
  }
  return { added, roomless };
}

/** Those that are not there, and those that are there with another type. Rejects if the server does not answer this. */
export async function lookAtAttributes(
  { operatorService }: Operators,
  namespace: string,
): Promise<{ missing: SearchAttribute[]; taken: SearchAttribute[] }> {
  const { customAttributes } = await operatorService
    .listSearchAttributes({ namespace })
    .catch((cause: unknown) => {
      const what = `the server does not tell this worker the search attributes of namespace ${namespace}; it needs`;
      throw refused(what, { cause, namespace, attributes: SEARCH_ATTRIBUTES });
    });
  const typeOf = ({ name }: SearchAttribute): number | undefined => customAttributes[name];
  const isThere = (one: SearchAttribute): boolean => typeOf(one) !== undefined;
  return {
    missing: SEARCH_ATTRIBUTES.filter((one) => !isThere(one)),
    taken: SEARCH_ATTRIBUTES.filter(
      (one) => isThere(one) && typeOf(one) !== INDEXED_VALUE_TYPE[one.type],
    ),
  };
}

/** The attributes that rollouts are played without, and how to have them after all. */
export function withoutText(attributes: readonly SearchAttribute[], namespace: string): string {
  const names = attributes.map(({ name, type }) => `${name} (${CLI_TYPE[type]})`).join(', ');
  return `namespace ${namespace} has no room for search attributes ${names}, so lists cannot be filtered by them. Remove another attribute of the type, or use another namespace; then restart the workers`;
}

interface Refused {
  cause: unknown;
  namespace: string;
  attributes: readonly SearchAttribute[];
}

function refused(what: string, { cause, namespace, attributes }: Refused): Error {
  const commands = attributes.map(
    ({ name, type }) =>
      `  temporal operator search-attribute create --namespace ${namespace} --name ${name} --type ${CLI_TYPE[type]}`,
  );
  const names = attributes.map(({ name }) => name).join(', ');
  return new Error(`${what} ${names}. Ask an operator to type:\n${commands.join('\n')}`, {
    cause,
  });
}
