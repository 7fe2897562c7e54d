/** Answers of a gateway over its socket, and what its journal has of them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readStream, says } from './asking.js';
import { gatewayBed, poolFor } from './gateway-bed.js';

const kinds = (lines: readonly { kind: string }[]): string[] => lines.map(({ kind }) => kind);

const piecesIn = (text: string): number => text.split('"content":').length;

describe('a new call', () => {
  test('is journalled, sampled and answered whole', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const reply = await life.post(says('It is done. é 🧩'));
    const body = (await reply.json()) as Record<string, unknown>;
    assert.equal(reply.status, 200, JSON.stringify(body));
    assert.deepEqual((body['choices'] as unknown[])[0], {
      index: 0,
      message: { role: 'assistant', content: 'It is done. é 🧩' },
      finish_reason: 'stop',
    });
    const [call] = life.journal.trajectory.calls;
    assert.deepEqual(body['usage'], {
      prompt_tokens: call!.prompt_length,
      completion_tokens: call!.sampled.token_ids.length,
      total_tokens: call!.prompt_length + call!.sampled.token_ids.length,
    });
    assert.equal(requests.length, 1);
    const lines = await life.lines();
    assert.deepEqual(
      kinds(lines).filter((kind) => kind !== 'chunk'),
      ['claim', 'start', 'life', 'call', 'generation', 'answer'],
    );
    await life.session.end('over');
    assert.deepEqual(kinds(await life.lines()).slice(-1), ['served']);
  });

  test('streams what it says, tool calls whole', async (t) => {
    const { open } = await gatewayBed(t, { simulator: { tokens_per_second: 400, skill: 10 } });
    const life = await open();
    const reply = await life.post({
      model: 'policy',
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: 'user', content: 'Call: {"name": "run", "arguments": {"command": "ls"}}' },
      ],
      tools: [{ type: 'function', function: { name: 'run', parameters: { type: 'object' } } }],
    });
    const text = await reply.text();
    const { calls, finish, isDone } = readStream(text);
    assert.equal(finish, 'tool_calls', text);
    assert.ok(isDone, text);
    assert.deepEqual(
      calls.map(({ id, function: { name } }) => [id, name]),
      [['call_0_0', 'run']],
    );
    assert.match(text, /"usage":\{"prompt_tokens":\d+/);
  });

  test('says its tokens without a question to the decoder', async (t) => {
    const { open, service, requests } = await gatewayBed(t, {
      simulator: { tokens_per_second: 400 },
    });
    const text = `${'word '.repeat(20)}é 🧩 it is`;
    const asked: number[][] = [];
    let decode = (): void => undefined;
    const mayDecode = new Promise<void>((resolve) => (decode = resolve));
    const slow: typeof service = {
      ...service,
      detokenize: async (given, signal) => {
        asked.push([...given.token_ids]);
        await mayDecode;
        return service.detokenize(given, signal);
      },
    };
    const life = await open({ pool: poolFor(slow) });
    const reply = await life.post({ ...says(text), stream: true });
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    let got = '';
    while (piecesIn(got) < 6) got += (await reader.read()).value ?? assert.fail('it ended');
    assert.ok(asked.every(({ length }) => length === 1));
    decode();
    for (let read = await reader.read(); !read.done; read = await reader.read()) got += read.value;
    assert.equal(readStream(got).content, text);
    const { token_ids } = life.journal.trajectory.calls[0]!.sampled;
    assert.deepEqual(asked, [token_ids.slice(-1)]);
    assert.equal(life.journal.trajectory.calls[0]!.answer?.content, text);
    assert.deepEqual(
      requests.map(({ shows_special_tokens }) => shows_special_tokens),
      [true],
    );
    assert.equal((await life.post(says('It ends like the first.'))).status, 200);
    assert.equal(asked.length, 1);
  });

  test('has the logprobs that were asked for, streamed behind its end', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ generation: { top_logprobs: 2 } });
    const asked = { ...says('yes'), logprobs: true, top_logprobs: 1 };
    type Choice = {
      logprobs?: { content: { token: string; logprob: number; top_logprobs: unknown[] }[] };
    };
    const whole = (await (await life.post(asked)).json()) as { choices: Choice[] };
    const { token_ids, logprobs } = life.journal.trajectory.calls[0]!.sampled;
    const { content } = whole.choices[0]!.logprobs!;
    assert.deepEqual(
      content.map(({ token }) => token),
      token_ids.map((id) => `token_id:${id}`),
    );
    assert.deepEqual(
      content.map(({ logprob }) => logprob),
      logprobs,
    );
    assert.ok(content.every(({ top_logprobs }) => top_logprobs.length === 1));
    const text = await (await life.post({ ...asked, stream: true })).text();
    const last = text.split('\n\n').find((event) => event.includes('"finish_reason":"stop"'))!;
    const { choices } = JSON.parse(last.slice('data: '.length)) as { choices: Choice[] };
    assert.equal(choices[0]!.logprobs!.content.length, token_ids.length);
  });
});
