import type { NativeConnection } from '@temporalio/worker';
import { SEARCH_ATTRIBUTES } from '../model/workflow-safe/search-attributes.js';

/** temporal.api.enums.v1.IndexedValueType. */
const INDEXED_VALUE_TYPE = { KEYWORD: 2, INT: 3, DOUBLE: 4 } as const;
const CLI_TYPE = { KEYWORD: 'Keyword', INT: 'Int', DOUBLE: 'Double' } as const;

/**
 * Registers the search attributes that the namespace lacks: a workflow that upserts an unknown one hangs. If the server
 * refuses, the error contains the commands for an operator. Returns the names that were added.
 */
export async function ensureSearchAttributes(
  { operatorService }: Operator,
  { namespace }: { namespace: string },
): Promise<string[]> {
  const missing = await missingSearchAttributes({ operatorService }, { namespace });
  if (missing.length === 0) return [];
  const searchAttributes = Object.fromEntries(
    missing.map(({ name, type }) => [name, INDEXED_VALUE_TYPE[type]]),
  );
  await operatorService
    .addSearchAttributes({ namespace, searchAttributes })
    .catch((cause: unknown) => {
      const what = `the server does not let this worker add what namespace ${namespace} lacks, the search attributes`;
      throw refused(what, { cause, namespace, attributes: missing });
    });
  return missing.map(({ name }) => name);
}

type Operator = Pick<NativeConnection, 'operatorService'>;

/** Rejects if the server does not answer this, or has one of another type. */
export async function missingSearchAttributes(
  { operatorService }: Operator,
  { namespace }: { namespace: string },
): Promise<(typeof SEARCH_ATTRIBUTES)[number][]> {
  const { customAttributes } = await operatorService
    .listSearchAttributes({ namespace })
    .catch((cause: unknown) => {
      const what = `the server does not tell this worker the search attributes of namespace ${namespace}; it needs`;
      throw refused(what, { cause, namespace, attributes: SEARCH_ATTRIBUTES });
    });
  for (const { name, type } of SEARCH_ATTRIBUTES) {
    const there: number | undefined = customAttributes[name];
    if (there !== undefined && there !== INDEXED_VALUE_TYPE[type]) {
      throw new Error(
        `search attribute ${name} of namespace ${namespace} is not a ${CLI_TYPE[type]}; remove it, or use another namespace`,
      );
    }
  }
  return SEARCH_ATTRIBUTES.filter(({ name }) => !(name in customAttributes));
}

function refused(
  what: string,
  {
    cause,
    namespace,
    attributes,
  }: {
    cause: unknown;
    namespace: string;
    attributes: readonly (typeof SEARCH_ATTRIBUTES)[number][];
  },
): Error {
  const commands = attributes.map(
    ({ name, type }) =>
      `  temporal operator search-attribute create --namespace ${namespace} --name ${name} --type ${CLI_TYPE[type]}`,
  );
  const names = attributes.map(({ name }) => name).join(', ');
  return new Error(
    `${what} ${names}. Free the slots or ask an operator to type:\n${commands.join('\n')}`,
    { cause },
  );
}
