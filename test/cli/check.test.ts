import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { answer, startServer } from '../environments/loopback-server.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { runHere } from '../harness/command-here.js';

/** It sets a terminal's colour and title, and turns the rest of the line round. */
const ACTS = '\u009b31m\u001b]0;title\u0007\u202emodel';
/** What a terminal takes for text: no controls but line ends, no marks of direction. */
const PLAIN = /^(?:[\n\t\u0020-\u007e\u00a0-\u200d\u2010-\u2027\u202f-\u205f\ufffd])*$/;

describe('a check of an engine that speaks to terminals', () => {
  for (const [how, args] of [
    ['as text', []],
    ['as JSON', ['--json']],
  ] as const)
    test(`shows what it says ${how}, and does none of it`, async (t) => {
      const { url } = await startServer((request, response) => {
        const body = {
          '/v1/models': { data: [{ id: ACTS }] },
          '/version': { version: ACTS },
        }[request.url ?? ''];
        answer(200, body ?? {})(request, response);
      });
      const file = path.join(await temporaryFolder(t), 'temporal.yaml');
      const generation = { default: { kind: 'vllm', base_urls: [`${url}/v1`] } };
      const environments = { puzzle: { kind: 'sliding_puzzle' } };
      const temporal = { address: '127.0.0.1:9' };
      await writeFile(file, JSON.stringify({ temporal, generation, environments }));
      const { stdout } = await runHere(t, 'check', '--config', file, ...args);
      assert.match(stdout, PLAIN);
      assert.match(stdout, /model/);
    });
});
