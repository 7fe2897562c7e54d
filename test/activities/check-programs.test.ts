/** What a batch is told whose rollouts programs would play. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { programBench } from '../fakes/program-bench.js';
import { BATCH } from '../fakes/temporary-store.js';

const SAMPLE = { message_log: [{ role: 'user', content: 'go' }], task_name: 'task' };

/** Why it is refused, or `ok`, and what its worker warns of. */
async function planned(t: TestContext, input: object): Promise<{ says: string; warns: string }> {
  const bench = await programBench(t, {
    program: () => Promise.resolve({}),
    simulator: { max_model_len: 40_000 },
  });
  const given = { samples: [SAMPLE], max_seq_len: 32_768, ...input };
  const { error, warnings } = await bench.run('planBatch', { input: given, workflow_id: BATCH });
  return {
    says: error === undefined ? 'ok' : (error as Error).message,
    warns: warnings.join('\n'),
  };
}

describe('a batch of programs', () => {
  test('is planned, and warned of a length that is short for agents', async (t) => {
    assert.deepEqual(await planned(t, {}), { says: 'ok', warns: '' });
    const { says, warns } = await planned(t, { max_seq_len: 4096 });
    assert.equal(says, 'ok');
    assert.match(
      warns,
      /^max_seq_len 4096 bounds each call of environment task's programs, prompt and answer: most agents need 16384 or more$/m,
    );
  });

  const why = /since the programs of environment task begin conversations themselves; got /;
  const REFUSED: [name: string, input: object, says: RegExp][] = [
    [
      'prompts that are no chat',
      { generation: { prompt_format: 'raw' } },
      /generation\.prompt_format: expected chat, /,
    ],
    [
      'bare observations',
      { generation: { observation_format: 'bare' } },
      /generation\.observation_format: expected chat or null, /,
    ],
    [
      'logprobs of prompts',
      { generation: { prompt_logprobs: true } },
      /generation\.prompt_logprobs: expected false, /,
    ],
    [
      'the semantics of another loop',
      { semantics: 'nemo-rl-async' },
      /semantics: expected standard, /,
    ],
  ];
  for (const [name, input, says] of REFUSED)
    test(`is refused ${name}, by field`, async (t) => {
      const told = await planned(t, input);
      assert.match(told.says, says);
      assert.match(told.says, why);
    });

  const SAMPLES: [name: string, sample: object, says: RegExp][] = [
    [
      'no message',
      { message_log: [] },
      /message_log: expected at least one message, got an empty task/,
    ],
    [
      'a picture',
      {
        message_log: [
          { role: 'user', content: [{ type: 'image', image: 'data:image/png;base64,AAAA' }] },
        ],
      },
      /message_log\.0\.content: .*(text|image)/,
    ],
    [
      'stop strings',
      { stop_strings: ['x'] },
      /stop_strings: expected none, since a program asks for its own; use generation\.stop_strings/,
    ],
  ];
  for (const [name, more, says] of SAMPLES)
    test(`is refused a sample with ${name}, by row`, async (t) => {
      const told = await planned(t, { samples: [SAMPLE, { ...SAMPLE, ...more }] });
      assert.match(told.says, says);
      assert.match(told.says, /row 1|samples\.1|sample 1/);
    });
});
