/** A worker whose client certificate is renewed, with its authority, while it plays: it goes on, without a restart. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startBatch } from '../../lab/bed/batch.js';
import { makeAuthority, noOpenssl } from '../harness/certificates.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { assertComplete } from '../harness/row-comparison.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { startTlsProxy } from '../harness/tls-proxy.js';
import { eventually } from '../../lab/bed/waiting.js';

const SIZE = { samples: 8, repeats: 2 };

describe('a worker whose certificates are renewed', { skip: noOpenssl }, () => {
  let bed: Testbed;
  before(async () => {
    bed = await startTestbed('worker-certificates');
  });
  after(async () => {
    await (bed as Testbed | undefined)?.end();
  });

  test('completes its batch and the next one, and ends in order', async (t) => {
    const { directory, server } = bed;
    const file = (name: string): string => path.join(directory, name);
    const renew = (name: string): string => {
      const authority = makeAuthority(directory, name);
      const { cert, key } = authority.sign('client');
      copyFileSync(cert, file('client.pem'));
      copyFileSync(key, file('client.key'));
      return authority.file;
    };
    const ours = makeAuthority(directory, 'ours');
    const clients = renew('first');
    const proxy = await startTlsProxy(server.address, { own: ours.sign('server'), clients });
    t.after(proxy.end);
    const worker = await bed.startWorker({
      task_queue: 'renewed',
      env: {
        TEMPORAL_TLS_SERVER_CA_CERT_PATH: ours.file,
        TEMPORAL_TLS_CLIENT_CERT_PATH: file('client.pem'),
        TEMPORAL_TLS_CLIENT_KEY_PATH: file('client.key'),
      },
      temporal: { address: proxy.address, namespace: server.namespace, task_queue: 'renewed' },
      generation: await bed.simulate({ default: { tokens_per_second: 20, thinking_tokens: 8 } }),
    });
    const play = (name: string) =>
      startBatch(
        bed.batch(name, 'renewed'),
        puzzleRequest({ samples: SIZE.samples, num_repeats: SIZE.repeats }),
      );
    const during = await play('during');
    await eventually('it plays', async () => {
      const { phase } = await during.handle.query<{ phase: string }>('progress');
      return phase === 'rollouts' || phase === 'running';
    });
    proxy.trust(makeAuthority(directory, 'second').file);
    proxy.trust(renew('third'));
    await eventually('a new connection', async () =>
      (await worker.log()).includes('connected anew'),
    );
    assertComplete(await during.outcome(), SIZE);
    assertComplete(await (await play('after')).outcome(), SIZE);
    const { code } = await worker.kill('SIGTERM');
    assert.equal(code, 0, (await worker.log()).slice(-2000));
  });
});
