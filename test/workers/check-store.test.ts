import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { checkStore } from '../../src/workers/check/check-store.js';
import { loadConfig } from '../../src/workers/config.js';
import { openStore } from '../../src/workers/open-store.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const ENGINE = 'http://127.0.0.1:9/v1';

test('a policy that no replica serves is broken, with the last error; without a publish there is none', async (t) => {
  const folder = await temporaryFolder(t);
  const file = path.join(folder, 'temporal.yaml');
  const generation = { default: { kind: 'vllm', base_urls: [ENGINE] } };
  const store = { kind: 'file', root: './rollouts' };
  await writeFile(file, JSON.stringify({ generation, environments: {}, store, inputs_dir: '.' }));
  const config = await loadConfig(file);
  const check = async () =>
    (await checkStore(config, { env: {}, file })).filter(({ part }) => part === 'policy default');
  assert.deepEqual(await check(), []);

  const opened = openStore(config, { env: {}, max_cached_bytes: 0, max_request_bytes: 0 });
  t.after(() => opened.close());
  const records = createPolicyRecords({ facts: opened.store.facts, service: 'default' });
  await records.change(() => firstRecord([ENGINE]));
  const [served] = await check();
  assert.equal(served?.state, 'ok');

  const fault = 'load: no such file';
  await records.change((now) => now && withReplica(now, { replica: ENGINE, state: 'unknown', fault })); // prettier-ignore
  const [broken] = await check();
  assert.equal(broken?.state, 'broken');
  assert.equal(
    broken.what,
    `no replica serves: ${ENGINE} is unknown (${fault}); publish a version that loads`,
  );
});
