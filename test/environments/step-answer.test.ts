import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { stepOne } from '../fakes/environment-steps.js';
import { answer, startServer } from './loopback-server.js';

const good = {
  observations: [{ role: 'environment', content: '' }],
  metadata: [{}],
  next_stop_strings: null,
  rewards: [0],
  terminateds: [false],
};

/** Field, expected, got: what the message of the rejection says after `POST …/step answered: `. */
// One case a line.
// prettier-ignore
const cases: [name: string, body: unknown, message: string][] = [
  ['no JSON', 'Internal', '(body): expected JSON, got SyntaxError'],
  ['nothing', '', '(body): expected JSON, got an empty body'],
  ['Python’s NaN', '{"rewards": [NaN]}', '(body): expected JSON, got SyntaxError'],
  ['another type', [good], '(input): expected object, got [{"observations"'],
  ['a missing list', { ...good, terminateds: undefined }, 'terminateds: expected array, got nothing'],
  ['an unknown field', { ...good, next_stop_string: [] }, 'next_stop_string: unknown field'],
  ['an observation without content', { ...good, observations: [{ role: 'environment' }] }, 'observations.0.content: expected a text, or a list of parts of type text or image_url, got nothing'],
  ['an observation with a part of another type', { ...good, observations: [{ role: 'environment', content: [{ type: 'audio' }] }] }, 'observations.0.content: expected a text, or a list of parts of type text or image_url, got [{"type":"audio"}]'],
  ['an observation that is a text', { ...good, observations: ['right'] }, 'observations.0: expected object, got "right"'],
  ['too few observations', { ...good, observations: [] }, 'observations: expected 1, one per message log, got 0'],
  ['too many metadata', { ...good, metadata: [null, null] }, 'metadata: expected 1, one per message log, got 2'],
  ['a metadata list', { ...good, metadata: [[1]] }, 'metadata.0: expected object, got [1]'],
  ['too few stop strings', { ...good, next_stop_strings: [] }, 'next_stop_strings: expected 1, one per message log, got 0'],
  ['a stop string that is no list', { ...good, next_stop_strings: ['</a>'] }, 'next_stop_strings.0: expected array, got "</a>"'],
  ['a reward of null', { ...good, rewards: [null] }, 'rewards: expected a list of finite numbers, or named lists of them, got [null]'],
  ['an infinite reward', JSON.stringify(good).replace('"rewards":[0]', '"rewards":[1e999]'), 'rewards: expected a list of finite numbers'],
  ['a reward of "true"', { ...good, rewards: ['true'] }, 'rewards: expected a list of finite numbers, or named lists of them, got ["true"]'],
  ['no component at all', { ...good, rewards: {} }, 'rewards: expected a list of finite numbers, or named lists of them, got {}'],
  ['a single reward', { ...good, rewards: 1 }, 'rewards: expected a list of finite numbers, or named lists of them, got 1'],
  ['too many rewards', { ...good, rewards: [0, 1] }, 'rewards: expected 1, one per message log, got 2'],
  ['a named reward too few', { ...good, rewards: { right: [1], form: [] } }, 'rewards.form: expected 1, one per message log, got 0'],
  ['a flag of 0.5', { ...good, terminateds: [0.5] }, 'terminateds.0: expected true, false, 0 or 1, got 0.5'],
  ['a flag as text', { ...good, terminateds: ['true'] }, 'terminateds.0: expected true, false, 0 or 1, got "true"'],
  ['two answers', { ...good, answers: ['4', '5'] }, 'answers: expected 1, one per message log, got 2'],
  ['an answer that is no text', { ...good, answers: [4] }, 'answers.0: expected string, got 4'],
  ['an empty stop string', { ...good, next_stop_strings: [['']] }, 'next_stop_strings.0.0: '],
  ['a named reward that is no list', { ...good, rewards: { form: 1 } }, 'rewards: expected a list of finite numbers, or named lists of them, got {"form":1}'],
  ['a reward without a name', { ...good, rewards: { '': [1] } }, 'rewards: expected names, got an empty one'],
  ['metadata of a name that no object has', JSON.stringify(good).replace('[{}]', '[{"__proto__":1}]'), 'metadata.0.__proto__: expected another name'],
  ['too few answers', { ...good, answers: [] }, 'answers: expected 1, one per message log, got 0'],
];

test('an observation may have pictures beside its text', async () => {
  const content = [
    { type: 'text', text: 'See' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
  ];
  const observations = [{ role: 'user', content }];
  const { url } = await startServer(answer(200, { ...good, observations }));
  const environment = createHttpEnvironment({ url, timeout_ms: 5000 });
  const { observation } = await stepOne(environment, { log: [] });
  assert.deepEqual(observation, observations[0]);
});

describe('an answer that breaks the protocol is rejected, saying field, expected and got', () => {
  for (const [name, body, message] of cases) {
    test(name, async () => {
      const { url } = await startServer(answer(200, body));
      const environment = createHttpEnvironment({ url, timeout_ms: 5000 });
      const step = stepOne(environment, { log: [] });
      await assert.rejects(step, (error: Error) => {
        assert.equal(error.name, 'EnvironmentRejected');
        const start = `POST ${url}/step answered: ${message}`;
        assert.equal(error.message.slice(0, start.length), start);
        return true;
      });
    });
  }

  test('several problems are listed, at most five', async () => {
    const { url } = await startServer(answer(200, { a: 1, b: 1, c: 1 }));
    const environment = createHttpEnvironment({ url, timeout_ms: 5000 });
    const step = stepOne(environment, { log: [] });
    await assert.rejects(step, (error: Error) => {
      assert.match(
        error.message,
        /observations: .*; metadata: .*; rewards: .*; terminateds: .*; a: unknown field; … and 2 more$/,
      );
      return true;
    });
  });
});
