import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemsOf } from '../../src/model/problems.js';
import { ROW_COLUMNS, STREAM_COLUMNS, Sample } from '../../src/model/sample.js';
import { firstLostInteger } from '../../src/platform/json/losses.js';

const parsed = (text: string): unknown => JSON.parse(text);
const MINIMAL = { message_log: [{ role: 'user', content: 'go' }], task_name: 'task' };

function problems(sample: unknown): string[] {
  const { error } = Sample.safeParse(sample);
  return error === undefined
    ? []
    : problemsOf(error, sample).map(({ where, what }) => `${where}: ${what}`);
}

describe('a sample', () => {
  test('needs a prompt and a task, nothing more', () => {
    assert.deepEqual(Sample.parse(MINIMAL), MINIMAL);
  });

  test('keeps unknown columns untouched, whatever they hold', () => {
    const columns = {
      constructor: 'x',
      toString: 1,
      dataset: 'x',
      nested: { a: [1, { b: null }] },
      idx: 17,
      weight: -0.5,
    };
    assert.deepEqual(Sample.parse({ ...MINIMAL, ...columns }), { ...MINIMAL, ...columns });
  });

  test('may have all of upstream’s columns, stop_strings also null', () => {
    const full = {
      message_log: [{ role: 'user', content: 'go', token_ids: [1], generation_logprobs: [-0.5] }],
      task_name: 'task',
      extra_env_info: { state: {} },
      idx: 3,
      loss_multiplier: 0,
      stop_strings: null,
      length: 1,
    };
    assert.deepEqual(Sample.parse(full), full);
    assert.deepEqual(problems({ ...full, stop_strings: ['</answer>'] }), []);
  });

  // One case a line.
  // prettier-ignore
  const refused: [string, unknown, RegExp][] = [
    ['nothing', null, /^\(input\): expected object, got null$/],
    ['no prompt', { task_name: 't' }, /^message_log: expected array, got nothing$/],
    ['only empty messages', { ...MINIMAL, message_log: [{ role: 'user', content: '' }] }, /^message_log: expected a prompt/],
    ['no task', { message_log: MINIMAL.message_log }, /^task_name: expected string, got nothing$/],
    ['a number as content', { ...MINIMAL, message_log: [{ role: 'user', content: 7 }] }, /^message_log\.0\.content: expected a text, or a list of parts of type text or image_url, got 7$/],
    ['an unknown field in a message', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', tool: 1 }] }, /^message_log\.0\.tool: unknown field$/],
    ['a negative id', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', token_ids: [-1] }] }, /^message_log\.0\.token_ids\.0: .*got -1$/],
    ['an id beyond 32 bits', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', token_ids: [2 ** 31] }] }, /^message_log\.0\.token_ids\.0: expected a token id, an integer from 0 to 2147483647, got 2147483648$/],
    ['an id as large as a double has', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', token_ids: [2 ** 53 - 1] }] }, /^message_log\.0\.token_ids\.0: .*got 9007199254740991$/],
    ['a fraction as id', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', token_ids: [1.5] }] }, /^message_log\.0\.token_ids\.0: .*got 1\.5$/],
    ['a list as extra_env_info', { ...MINIMAL, extra_env_info: [] }, /^extra_env_info: expected object, got \[\]$/],
    ['one stop string', { ...MINIMAL, stop_strings: 'x' }, /^stop_strings: expected array, got "x"$/],
    ['a column that no object keeps', parsed(JSON.stringify({ ...MINIMAL, x: 1 }).replace('"x"', '"__proto__"')), /^__proto__: expected another name: no object can keep a field __proto__, got one$/],
    ['such a name in extra_env_info', { ...MINIMAL, extra_env_info: parsed('{"__proto__": {"a": 1}}') }, /^extra_env_info\.__proto__: expected another name/],
    ['a loss multiplier below 0', { ...MINIMAL, loss_multiplier: -1 }, /^loss_multiplier: expected a number from 0 to 1000000, got -1$/],
    ['a loss multiplier that float32 has not', { ...MINIMAL, loss_multiplier: 1e39 }, /^loss_multiplier: expected a number from 0 to 1000000, got 1e\+39$/],
    ['a logprob that float32 has not', { ...MINIMAL, message_log: [{ role: 'user', content: 'x', token_ids: [1, 2], generation_logprobs: [-1, -1e39] }] }, /^message_log\.0\.generation_logprobs\.1: expected a number that float32 has, got -1e\+39$/],
    ['an empty stop string', { ...MINIMAL, stop_strings: [''] }, /^stop_strings\.0: .*got ""$/],
  ];
  for (const [what, sample, expected] of refused) {
    test(`with ${what} is refused by one message that names the place`, () => {
      const found = problems(sample);
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', expected);
    });
  }

  test('with ids on some messages only is refused, and the message counts them', () => {
    const message_log = [
      { role: 'system', content: 'a', token_ids: [1] },
      { role: 'user', content: 'b' },
      { role: 'user', content: 'c' },
    ];
    assert.deepEqual(problems({ ...MINIMAL, message_log }), [
      'message_log: expected token_ids on every message or on none, got them on 1 of 3',
    ]);
  });

  test('with ids on every message may have empty contents and empty lists', () => {
    const message_log = [
      { role: 'user', content: '', token_ids: [1] },
      { role: 'user', content: '', token_ids: [] },
    ];
    assert.deepEqual(problems({ ...MINIMAL, message_log }), []);
  });

  for (const column of ROW_COLUMNS) {
    test(`with a column ${column} is refused: its row would overwrite it`, () => {
      const found = problems({ ...MINIMAL, [column]: 1 });
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', new RegExp(`^${column}: this column is written by the rollout`));
    });
  }

  // As Parquet, `datasets` or pandas give a row that lacks what another has.
  test('has no column, field or part of a table that is null', () => {
    const parts = [
      { type: 'text', text: 'go', image_url: null },
      { type: 'image_url', text: null, image_url: { url: 'https://x/y.png', detail: null } },
    ];
    const nothing = { token_ids: null, generation_logprobs: null, tool_calls: null, name: null };
    const columns = [
      ...ROW_COLUMNS,
      ...STREAM_COLUMNS,
      'extra_env_info',
      'idx',
      'loss_multiplier',
      'length',
    ];
    const table = {
      ...Object.fromEntries(columns.map((column) => [column, null])),
      task_name: 'task',
      stop_strings: null,
      own: null,
      message_log: [
        { role: 'system', content: 'x', ...nothing },
        { role: 'user', content: parts, ...nothing },
      ],
    };
    assert.deepEqual(Sample.parse(table), {
      task_name: 'task',
      stop_strings: null,
      own: null,
      message_log: [
        { role: 'system', content: 'x' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'go' },
            { type: 'image_url', image_url: { url: 'https://x/y.png' } },
          ],
        },
      ],
    });
  });

  test('needs what it needs, though null were absent', () => {
    assert.deepEqual(problems({ ...MINIMAL, task_name: null }), [
      'task_name: expected string, got null',
    ]);
    const message_log = [{ role: null, content: null }];
    assert.deepEqual(problems({ ...MINIMAL, message_log }), [
      'message_log.0.role: expected string, got null',
      'message_log.0.content: expected a text, or a list of parts of type text or image_url, got null',
    ]);
  });

  test('may have the row’s columns that are its own', () => {
    const own = { extra_env_info: {}, stop_strings: ['x'], idx: 0, length: 1, loss_multiplier: 1 };
    assert.deepEqual(problems({ ...MINIMAL, ...own }), []);
  });
});

describe('an integer that JavaScript would round', () => {
  const lost: [string, string][] = [
    ['{"id":9007199254740993}', '9007199254740993'],
    ['{"id":9007199254740992}', '9007199254740992'],
    ['[-9007199254740993]', '-9007199254740993'],
    ['{"a":1,"b":[0,123456789012345678901]}', '123456789012345678901'],
    ['9007199254740993', '9007199254740993'],
  ];
  for (const [json, digits] of lost) {
    test(`finds ${digits} in ${json}`, () => {
      assert.equal(firstLostInteger(json)?.got, digits);
    });
  }

  const kept = [
    '{"id":9007199254740991}',
    '{"id":-9007199254740991}',
    '{"id":"9007199254740993"}',
    '{"9007199254740993":1}',
    '{"text":"a \\"9007199254740993\\" b","n":1}',
    '{"logprob":-0.30000000000000004}',
    '{"logprob":-1.2345678901234567e-05}',
    '{"p":0.12345678901234567890}',
    '{"x":12345678901234567.5}',
    '{"x":1e300}',
    '{"x":1e0000000000000000001}',
  ];
  for (const json of kept) {
    test(`finds nothing in ${json}`, () => {
      JSON.parse(json);
      assert.equal(firstLostInteger(json), null);
    });
  }
});
