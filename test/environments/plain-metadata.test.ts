import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Environment, Metadata } from '../../src/environments/environment.js';
import { withPlainMetadata } from '../../src/environments/plain-metadata.js';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import { KeptJson, readJson, writeJson } from '../../src/platform/json/kept.js';
import { CONTEXT, rejectionOf, said } from '../fakes/environment-steps.js';

/** Its code returns `change` of what it was given. */
const changing = (change: (metadata: Metadata) => Metadata | null): Environment => ({
  step: ({ metadata }) =>
    Promise.resolve({
      observation: null,
      metadata: change(metadata),
      reward: 0,
      terminated: true,
    }),
});

async function step(
  text: string,
  change: (metadata: Metadata) => Metadata | null,
): Promise<string | null> {
  const environment = withPlainMetadata(changing(change), 'task');
  const turn = { message_log: [said('x')], metadata: readJson(text) as ForeignObject };
  const { metadata = null } = await environment.step(turn, CONTEXT);
  return metadata === null ? null : writeJson(metadata);
}

describe('an environment whose code is JavaScript', () => {
  const text = '{"10":1.0,"2":{"b":2.50,"3":1},"name":"x"}';

  test('gets plain values', async () => {
    const seen: Metadata[] = [];
    await step(text, (metadata) => {
      assert.ok(!(metadata instanceof KeptJson));
      seen.push(metadata);
      return null;
    });
    assert.deepEqual(seen, [JSON.parse(text)]);
  });

  test('gives back as it was written what it leaves as it was', async () => {
    assert.equal(await step(text, (metadata) => metadata), text);
    assert.equal(await step(text, (metadata) => structuredClone(metadata)), text);
    assert.equal(await step(text, () => null), null);
    const changed = await step(text, (metadata) => ({ ...metadata, name: 'y', more: 1 }));
    assert.equal(changed, '{"10":1.0,"2":{"b":2.50,"3":1},"name":"y","more":1}');
    const inside = await step(text, (metadata) => {
      (metadata['2'] as Metadata)['3'] = 5;
      return metadata;
    });
    assert.equal(inside, '{"10":1.0,"2":{"3":5,"b":2.5},"name":"x"}');
    const { name, 2: second } = JSON.parse(text) as Metadata;
    assert.equal(
      await step(text, () => ({ 2: second, name })),
      '{"2":{"b":2.50,"3":1},"name":"x"}',
    );
  });

  for (const number of ['9223372036854775783', '-9007199254740993', '1e400', '1e-400'])
    test(`is refused ${number}, by its field, at a step and at planning`, async () => {
      const lost = `{"game":{"seeds":[1,${number}]}}`;
      const what = `game.seeds.1: expected a number that JavaScript holds exactly (this environment runs in it), got ${number}; write it as a string`;
      const message = await rejectionOf(step(lost, (metadata) => metadata));
      assert.equal(message, `metadata for environment task: ${what}`);
      const environment = withPlainMetadata(
        changing((metadata) => metadata),
        'task',
      );
      const problems = environment.sampleProblems?.(readJson(lost) as ForeignObject, {
        is_standard: true,
      });
      assert.deepEqual(
        problems?.map(({ where, what: why }) => `${where}: ${why}`),
        [what],
      );
    });
});
