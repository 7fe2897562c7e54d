import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { withoutSecrets } from '../../src/platform/secrets.js';
import { connectionSettings } from '../../src/workers/connection-settings.js';
import { makeTemporaryDirectory } from '../harness/temporary-directory.js';

const NOTHING = { profile: null, address: null, namespace: null, task_queue: 'q' };

test('keys of a Temporal server are secrets, from variables and from temporal.toml', async (t) => {
  const directory = await makeTemporaryDirectory('connection');
  t.after(directory.remove);
  const file = path.join(directory.path, 'temporal.toml');
  const profile = [
    '[profile.other]',
    'address = "temporal.example:7233"',
    'api_key = "key-of-the-file-0123"',
    'grpc_meta = { authorization = "token-of-the-file-0123", region = "eu-west-number-1" }',
  ];
  await writeFile(file, profile.join('\n'));
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  process.env['TEMPORAL_CONFIG_FILE'] = file;
  connectionSettings({ temporal: { ...NOTHING, profile: 'other' } });
  process.env['TEMPORAL_API_KEY'] = 'key-of-the-variable-0123';
  const { options } = connectionSettings({ temporal: { ...NOTHING, profile: 'other' } });
  assert.equal(options.apiKey, 'key-of-the-variable-0123');

  const said =
    'key-of-the-variable-0123 key-of-the-file-0123 token-of-the-file-0123 eu-west-number-1';
  assert.equal(withoutSecrets(said), '[secret] [secret] [secret] eu-west-number-1');
});
