import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { encode } from './characters.js';
import { createScriptedEngine } from './scripted-engine.js';
import type { EngineScript, ScriptedEngine } from './scripted-engine.js';

const PROMPT = encode('go');

const BODY = {
  model: 'scripted',
  prompt: PROMPT,
  max_tokens: 20,
  n: 1,
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  min_tokens: 0,
  ignore_eos: false,
  skip_special_tokens: true,
  include_stop_str_in_output: true,
  stream: true,
  stream_options: { include_usage: true, continuous_usage_stats: true },
  return_token_ids: true,
  return_weight_versions: true,
  logprobs: 0,
};

interface Choice {
  text: string;
  token_ids: number[];
  logprobs: { token_logprobs: number[] } | null;
  finish_reason: string | null;
}
interface Answer {
  status: number;
  /** The content of a stream, or the message of a refusal. */
  text: string;
  token_ids: number[];
  logprobs: number[];
  finish_reason: string | null;
}

describe('the scripted engine', () => {
  const engines: ScriptedEngine[] = [];
  after(async () => {
    await Promise.all(engines.map((engine) => engine.close()));
  });

  let requests = 0;
  const start = async (script: EngineScript, maxModelLen?: number) => {
    const engine = createScriptedEngine();
    engines.push(engine);
    const url = await engine.listen(maxModelLen);
    engine.script('b', script);
    const ask = async (
      turn: number,
      { rollout = 'b/0-0', request = `w${++requests}`, ...body }: Record<string, unknown> = {},
    ): Promise<Answer> => {
      const response = await fetch(`${url}/completions`, {
        method: 'POST',
        headers: {
          'x-session-id': String(rollout),
          'x-request-id': `${String(rollout)}.${turn}.${String(request)}`,
        },
        body: JSON.stringify({ ...BODY, ...body }),
      });
      return readAnswer(response.status, await response.text());
    };
    return { engine, ask };
  };

  const refused = (answer: Answer, text: RegExp): void => {
    assert.equal(answer.status, 422);
    assert.match(answer.text, text);
  };

  test('refuses a request that belongs to no script', async () => {
    const { engine, ask } = await start({ generation: [[{ text: 'a' }]] });
    refused(await ask(0, { rollout: 'other/0-0' }), /no script for other\/0-0\.0\./);
    assert.equal(engine.problems.length, 1);
  });

  test('refuses a turn beyond the script, unless its last entry repeats', async () => {
    const generation = [[{ text: 'a' }]];
    const strict = await start({ generation });
    await strict.ask(0);
    const next = { prompt: [...PROMPT, ...encode('a?')] };
    refused(await strict.ask(1, next), /has 1 turns of row 0, turn 1 was asked for/);
    assert.equal(strict.engine.problems.length, 1);
    const lenient = await start({ generation, after_last: 'repeat' });
    await lenient.ask(0);
    assert.equal((await lenient.ask(1, next)).text, 'a');
  });

  test('refuses a turn that it has generated to its end, unless repeats are allowed', async () => {
    const generation = [[{ text: 'a' }]];
    const strict = await start({ generation });
    await strict.ask(0);
    refused(await strict.ask(0), /turn 0 of b\/0-0 was generated twice/);
    assert.equal(strict.engine.problems.length, 1);
    const lenient = await start({ generation, allow_repeats: true });
    await lenient.ask(0);
    assert.equal((await lenient.ask(0)).text, 'a');
    assert.deepEqual(
      lenient.engine.requests('b').map(({ kind }) => kind),
      ['first', 'repeat'],
    );
  });

  test('refuses a prompt that does not continue from the turn before', async () => {
    const { ask } = await start({ generation: [[{ text: 'ab' }, { text: 'cd' }]] });
    await ask(0);
    const prompt = [...PROMPT, ...encode('aX?')];
    refused(await ask(1, { prompt }), /does not begin with what was generated before/);
  });

  test('refuses a request id that it has seen, and one of another session', async () => {
    const { ask } = await start({ generation: [[{ text: 'ab' }]], allow_repeats: true });
    await ask(0, { request: 'same' });
    refused(await ask(0, { request: 'same' }), /X-Request-Id b\/0-0\.0\.same came twice/);
    refused(await ask(0, { request: 'a.b/c' }), /X-Request-Id is b\/0-0\.0\.a\.b\/c/);
  });

  test('refuses a body that leaves a sampling parameter to the server, or adds an unknown one', async () => {
    const { ask } = await start({ generation: [[{ text: 'ab' }]] });
    refused(await ask(0, { top_k: undefined }), /top_k: /);
    refused(await ask(0, { best_of: 2 }), /best_of: unknown field/);
  });
});

function readAnswer(status: number, body: string): Answer {
  if (status !== 200) {
    const text = body.startsWith('{')
      ? (JSON.parse(body) as { error: { message: string } }).error.message
      : body;
    return { status, text, token_ids: [], logprobs: [], finish_reason: null };
  }
  const choices = body
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .flatMap((event) => (JSON.parse(event.slice(6)) as { choices: Choice[] }).choices);
  return {
    status,
    text: choices.map(({ text }) => text).join(''),
    token_ids: choices.flatMap(({ token_ids }) => token_ids),
    logprobs: choices.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
    finish_reason: choices.at(-1)?.finish_reason ?? null,
  };
}
