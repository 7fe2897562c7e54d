import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SEARCH_ATTRIBUTES } from '../../src/model/workflow-safe/search-attributes.js';
import { keepAttributes, knowAttributes } from '../../src/workers/search-attributes.js';

const NAMES = SEARCH_ATTRIBUTES.map(({ name }) => name);
const [KEYWORD, DOUBLE] = [2, 4];
const DAY_S = 24 * 3600;

/** A namespace with attributes of others, and room for so many more of each type. */
function namespaceOf(there: Record<string, number>, room: Record<number, number> = {}) {
  const state = { there: { ...there }, lists: 0, looks: 0, id: 'first', refusal: 0 };
  const refuse = (code: number, message: string) => Object.assign(new Error(message), { code });
  return {
    state,
    operatorService: {
      listSearchAttributes: () => {
        state.lists += 1;
        return Promise.resolve({ customAttributes: { ...state.there } });
      },
      addSearchAttributes: ({ searchAttributes }: { searchAttributes: Record<string, number> }) => {
        if (state.refusal !== 0) return Promise.reject(refuse(state.refusal, 'refused'));
        const taken = { ...state.there };
        for (const [name, type] of Object.entries(searchAttributes)) {
          const used = Object.values(taken).filter((one) => one === type).length;
          if (used >= (room[type] ?? 10))
            return Promise.reject(refuse(3, 'unable to find available search attribute slot'));
          taken[name] = type;
        }
        state.there = taken;
        return Promise.resolve({});
      },
    },
    workflowService: {
      describeNamespace: () => {
        state.looks += 1;
        return Promise.resolve({ namespaceInfo: { id: state.id } });
      },
    },
  };
}

type Namespace = ReturnType<typeof namespaceOf>;

async function known(namespace: Namespace, upserts = true) {
  const said: string[] = [];
  const note = (...line: unknown[]): number => said.push(String(line.at(-1)));
  const log = { info: note, warn: note, debug: () => undefined };
  // Of the SDK's service only these two are called.
  const asked = namespace as unknown as Parameters<typeof knowAttributes>[0] &
    Parameters<typeof keepAttributes>[0];
  const attributes = await knowAttributes(asked, { namespace: 'team', upserts, log });
  return { asked, attributes, said, log };
}

describe('the search attributes of a namespace', () => {
  test('are all added where there is room', async () => {
    const namespace = namespaceOf({});
    const { attributes } = await known(namespace);
    assert.deepEqual(Object.keys(namespace.state.there).sort(), [...NAMES].sort());
    assert.deepEqual(attributes.unlisted(), []);
  });

  test('are added as far as there is room, and the log names those without', async () => {
    const namespace = namespaceOf({ Loss: DOUBLE, Score: DOUBLE, Eval: DOUBLE }, { [DOUBLE]: 3 });
    const { attributes, said } = await known(namespace);
    assert.deepEqual(attributes.unlisted(), ['RolloutReward']);
    assert.deepEqual(
      NAMES.filter((name) => !(name in namespace.state.there)),
      ['RolloutReward'],
    );
    assert.match(said.join('\n'), /namespace team has no room for .* RolloutReward \(Double\), /);
    await attributes.look();
    assert.equal(said.filter((line) => line.includes('no room')).length, 1, 'it is news once');
  });

  test('that others have with another type are done without', async () => {
    const { attributes } = await known(namespaceOf({ RolloutReward: KEYWORD }));
    assert.deepEqual(attributes.unlisted(), ['RolloutReward']);
  });

  test('that the worker may not add end it with the commands, one without workflows does without', async () => {
    const namespace = namespaceOf({});
    namespace.state.refusal = 7;
    await assert.rejects(known(namespace), (error: Error) => {
      for (const { name, type } of SEARCH_ATTRIBUTES)
        assert.match(
          error.message,
          new RegExp(`create --namespace team --name ${name} --type ${type}`, 'i'),
        );
      return true;
    });
    assert.deepEqual((await known(namespace, false)).attributes.unlisted(), []);
  });

  test('are not asked for again in a day, and are at once when the server has another database', async (t) => {
    const namespace = namespaceOf({});
    const { asked, attributes, log } = await known(namespace);
    t.mock.timers.enable({ apis: ['setInterval'] });
    const end = await keepAttributes(asked, { namespace: 'team', attributes, log });
    const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    for (let at = 0; at < DAY_S; at += 15) {
      t.mock.timers.tick(15_000);
      await settled();
    }
    assert.equal(namespace.state.lists, 1);
    assert.ok(namespace.state.looks > 5000, 'a new database is looked for');
    Object.assign(namespace.state, { id: 'second', there: {} });
    t.mock.timers.tick(15_000);
    await settled();
    assert.equal(namespace.state.lists, 2);
    assert.deepEqual(Object.keys(namespace.state.there).sort(), [...NAMES].sort());
    end();
  });
});
