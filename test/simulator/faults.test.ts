import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import {
  body,
  call,
  callJson,
  inject,
  openStream,
  PROMPT,
  readEvents,
  requestLog,
  simulator,
  sleep,
  STREAM,
  streamed,
} from './client.js';
import { eventually } from '../../lab/bed/waiting.js';

interface ListedFault {
  id: string;
  hits: number;
  active: boolean;
}

const { url } = await simulator();
const completions = `${url}/v1/completions`;
const streaming = body({ ...STREAM, ignore_eos: true, max_tokens: 40, seed: 2 });

async function outcome(): Promise<unknown[]> {
  const entry = (await requestLog(url)).at(-1);
  return [entry?.outcome, entry?.finish_reason, entry?.tokens_sent, entry?.fault];
}

/** What arrives of a stream, and whether it ended as HTTP streams end. */
function readUntilBroken(from: string): Promise<{ text: string; whole: boolean }> {
  const headers = { 'content-type': 'application/json' };
  return new Promise((resolve) => {
    let text = '';
    // `fetch` drops what has arrived when the connection breaks.
    const asked = request(`${from}/v1/completions`, { method: 'POST', headers }, (response) => {
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response
        .on('error', () => undefined)
        .on('close', () => {
          resolve({ text, whole: response.complete });
        });
    });
    asked.on('error', () => {
      resolve({ text, whole: false });
    });
    asked.end(JSON.stringify(streaming));
  });
}

describe('a fault', () => {
  test('refuse resets the connection, of any endpoint', async () => {
    for (const path of ['/v1/completions', '/tokenize']) {
      await inject(url, { fault: 'refuse' });
      await assert.rejects(call(url + path, { body: streaming }), (error: Error) => {
        assert.match(JSON.stringify(error.cause, ['code']), /ECONNRESET|UND_ERR_SOCKET/);
        return true;
      });
    }
    assert.equal((await call(completions, { body: streaming })).status, 200);
  });

  test('refuse with for_ms takes the listening socket away for a while', async () => {
    const { url } = await simulator({ faults: [{ fault: 'refuse', for_ms: 300 }] });
    await assert.rejects(call(`${url}/health`));
    const started = performance.now();
    await assert.rejects(call(`${url}/simulator/settings`), (error: Error) => {
      assert.match(JSON.stringify(error.cause, ['code']), /ECONNREFUSED/);
      return true;
    });
    await eventually('the socket to be back', () =>
      call(`${url}/health`).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
    assert.ok(performance.now() - started > 200);
  });

  test('503 and 429 are answered with retry-after when asked for', async () => {
    await inject(url, { fault: '503' });
    const busy = await call(completions, { body: streaming });
    assert.equal(busy.status, 503);
    assert.equal(
      busy.text,
      '{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}',
    );
    assert.equal(busy.headers.get('retry-after'), null);
    assert.deepEqual(await outcome(), ['rejected', null, 0, '503']);
    await inject(url, { fault: '429', retry_after: 1.5, path: '/tokenize' });
    assert.equal((await call(completions, { body: streaming })).status, 200);
    const limited = await call(`${url}/tokenize`, { body: { prompt: 'a' } });
    assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '1.5']);
  });

  test('401 and 404 are answered as vLLM does', async () => {
    for (const [fault, text] of [
      ['401', '{"error":"Unauthorized"}'],
      [
        '404',
        '{"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}}',
      ],
    ] as const) {
      await inject(url, { fault });
      const refused = await call(completions, { body: streaming });
      assert.deepEqual([refused.status, refused.text], [Number(fault), text]);
      assert.deepEqual(await outcome(), ['rejected', null, 0, fault]);
    }
  });

  test('stall sends nothing, or nothing more, until the client leaves', async () => {
    await inject(url, { fault: 'stall' });
    const leaves = new AbortController();
    const asked = assert.rejects(call(completions, { body: streaming, signal: leaves.signal }));
    await eventually('it stalls', async () => (await outcome())[3] === 'stall');
    leaves.abort();
    await asked;
    await inject(url, { fault: 'stall', after_tokens: 5 });
    const stream = await openStream(url, streaming);
    const { events, done } = readEvents(await stream.read());
    assert.equal(events[0]?.choices[0]?.token_ids?.length, 5);
    assert.equal(done, false);
    const more = stream.read().catch(() => 'closed');
    assert.equal(await Promise.race([more, sleep(150)]), undefined);
    stream.leave();
    await eventually('it has ended', async () => (await outcome())[0] === 'aborted');
    assert.deepEqual(await outcome(), ['aborted', 'abort', 5, 'stall']);
  });

  test('cut breaks the connection after so many tokens, without the end of the stream', async () => {
    for (const after_tokens of [0, 7, 1000]) {
      await inject(url, { fault: 'cut', after_tokens });
      const { text, whole } = await readUntilBroken(url);
      assert.equal(whole, false);
      const { events, done } = readEvents(text);
      const choices = events.flatMap(({ choices }) => choices);
      const sent = Math.min(after_tokens, 40);
      assert.equal(choices.flatMap(({ token_ids }) => token_ids ?? []).length, sent);
      assert.ok(choices.every(({ finish_reason }) => finish_reason === null));
      assert.equal(done, false);
      assert.deepEqual(await outcome(), ['cut', null, sent, 'cut']);
    }
  });

  test('nan_logprob is a null among the logprobs', async () => {
    await inject(url, { fault: 'nan_logprob', at_token: 3 });
    const { logprobs, choices } = await streamed(url);
    assert.equal(logprobs.indexOf(null), 3);
    assert.deepEqual(Object.values(choices[0]?.logprobs?.top_logprobs[3] ?? {}), [null]);
    assert.deepEqual((await outcome())[0], 'complete');
  });

  test('wrong_echo changes the last id of the echoed prompt', async () => {
    await inject(url, { fault: 'wrong_echo' });
    const { choices } = await streamed(url);
    const echo = choices[0]?.prompt_token_ids ?? [];
    assert.deepEqual(echo.slice(0, -1), PROMPT.slice(0, -1));
    assert.notEqual(echo.at(-1), PROMPT.at(-1));
  });

  test('in_band_error ends the stream with an error and [DONE], and is 500 without a stream', async () => {
    await inject(url, { fault: 'in_band_error', after_tokens: 4, times: 2 });
    const { events, done, token_ids } = await streamed(url);
    assert.equal(token_ids.length, 4);
    assert.deepEqual(events.at(-1)?.error, {
      message: 'EngineCore encountered an issue. See stack trace (above) for the root cause.',
      type: 'InternalServerError',
      param: null,
      code: 500,
    });
    assert.equal(done, true);
    assert.deepEqual(await outcome(), ['error', null, 4, 'in_band_error']);
    assert.equal((await call(completions, { body: body() })).status, 500);
  });

  test('done_without_finish sends usage and [DONE] alone', async () => {
    for (const after_tokens of [0, 6]) {
      await inject(url, { fault: 'done_without_finish', after_tokens });
      const { events, done, token_ids, finish_reason } = await streamed(url);
      assert.deepEqual([token_ids.length, finish_reason, done], [after_tokens, null, true]);
      assert.equal(events.at(-1)?.usage?.completion_tokens, after_tokens);
    }
  });

  test('abort_finish ends with an empty chunk whose finish reason is abort', async () => {
    await inject(url, { fault: 'abort_finish', after_tokens: 6, times: 2 });
    const { choices, token_ids, done } = await streamed(url);
    assert.deepEqual([token_ids.length, done], [6, true]);
    const { finish_reason, text, logprobs, token_ids: last } = choices.at(-1) ?? {};
    assert.deepEqual([finish_reason, text, last, logprobs?.tokens], ['abort', '', [], []]);
    assert.deepEqual(await outcome(), ['complete', 'abort', 6, 'abort_finish']);
    const { text: whole } = await call(completions, { body: body() });
    assert.match(whole, /"finish_reason":"abort"/);
  });

  test('merged_deltas puts so many tokens in each event but the last', async () => {
    for (const settings of [{}, { tokens_per_second: 400 }]) {
      const { url } = await simulator(settings);
      await inject(url, { fault: 'merged_deltas', tokens: 7 });
      const merged = await streamed(url, { body: streaming });
      const sizes = merged.choices.map(({ token_ids }) => token_ids?.length);
      assert.deepEqual(sizes, [7, 7, 7, 7, 7, 5]);
      assert.equal(merged.finish_reason, 'length');
    }
  });

  test('split_deltas sends token by token in pieces of so many bytes, and the same stream', async () => {
    const plain = await streamed(url, { body: streaming });
    await inject(url, { fault: 'split_deltas', bytes: 11 });
    const stream = await openStream(url, streaming);
    const pieces: string[] = [];
    for (let piece = await stream.read(); piece !== ''; piece = await stream.read())
      pieces.push(piece);
    assert.ok(pieces.length > 100, `${pieces.length} pieces`);
    const { events, done } = readEvents(pieces.join(''));
    const ids = events.flatMap(({ choices }) => choices.map(({ token_ids }) => token_ids ?? []));
    assert.ok(ids.every(({ length }) => length === 1));
    assert.deepEqual([ids.flat(), done], [plain.token_ids, true]);
  });
});

describe('faults', () => {
  test('die ends the process with code 1 after the tokens are out, and the log file has it', async () => {
    const program = `
      import { startSimulator } from '${import.meta.resolve('../../simulator/server.js')}';
      const faults = [{ fault: 'die', after_tokens: 6 }];
      console.log((await startSimulator({ settings: { faults }, port: 0 })).url);`;
    const args = ['--input-type=module', '--eval', program];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(child, 'exit');
    const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string];
    const { text, whole } = await readUntilBroken(line.trim());
    assert.equal(whole, false);
    assert.equal(readEvents(text).events[0]?.choices[0]?.token_ids?.length, 6);
    assert.deepEqual(await exited, [1, null]);
  });

  test('hit as often as times says, null until they are cleared', async () => {
    const { url } = await simulator({ faults: [{ fault: '503', times: 2 }] });
    const statuses = async (n: number): Promise<number[]> => {
      const answers = [];
      for (let i = 0; i < n; i++)
        answers.push(await call(`${url}/v1/completions`, { body: body() }));
      return answers.map(({ status }) => status);
    };
    assert.deepEqual(await statuses(3), [503, 503, 200]);
    await inject(url, { fault: '429', times: null });
    assert.deepEqual(await statuses(3), [429, 429, 429]);
    const { faults } = await callJson<{ faults: ListedFault[] }>(`${url}/simulator/faults`);
    assert.deepEqual(
      faults.map(({ id, hits, active }) => [id, hits, active]),
      [
        ['1', 2, false],
        ['2', 3, true],
      ],
    );
    await callJson(`${url}/simulator/faults/2`, { method: 'DELETE' });
    assert.deepEqual(await statuses(1), [200]);
    assert.equal((await call(`${url}/simulator/faults/2`, { method: 'DELETE' })).status, 404);
    assert.deepEqual(await callJson(`${url}/simulator/faults`, { method: 'DELETE' }), {
      cleared: 1,
    });
  });

  test('hit only the sessions that match', async () => {
    await inject(url, { fault: '503', match: 'b1/3-' });
    const status = async (session: string | null): Promise<number> =>
      (
        await call(completions, {
          body: body(),
          headers: session === null ? {} : { 'x-session-id': session },
        })
      ).status;
    assert.deepEqual(
      [await status(null), await status('b1/13-0'), await status('b1/3-0'), await status('b1/3-0')],
      [200, 200, 503, 200],
    );
  });

  test('with a probability hit the same requests for the same seed', async () => {
    const hits = async (seed: number): Promise<string> => {
      const { url } = await simulator({ faults: [{ fault: '503', probability: 0.3, seed }] });
      let pattern = '';
      for (let i = 0; i < 60; i++)
        pattern +=
          (await call(`${url}/v1/completions`, { body: body({ max_tokens: 1 }) })).status === 503
            ? 'x'
            : '.';
      return pattern;
    };
    const pattern = await hits(1);
    assert.equal(await hits(1), pattern);
    assert.notEqual(await hits(2), pattern);
    const count = pattern.replaceAll('.', '').length;
    assert.ok(count > 8 && count < 30, pattern);
  });

  test('of an unknown kind or with an unknown parameter are refused by name', async () => {
    for (const [fault, names] of [
      [{ fault: 'explode' }, /fault/],
      [{ fault: '503', after_tokens: 3 }, /after_tokens: unknown field/],
      [{ fault: 'cut', after_tokens: -1 }, /after_tokens: .*got -1/],
    ] as const) {
      const { status, text } = await call(`${url}/simulator/faults`, { body: fault });
      assert.equal(status, 400);
      assert.match(text, names);
    }
  });
});
