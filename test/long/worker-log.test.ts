/** What the SDK's native part says of a server that is lost is JSON, as all of a worker's log. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

interface Line {
  msg: string;
  sdkComponent?: string;
}

test('a worker that loses its server writes lines of JSON alone', async (t) => {
  const bed = await startPolicyBed({ name: 'worker-log', own_server: true, replicas: 1 });
  t.after(() => bed.end());
  const file = path.join(bed.directory, 'worker-1.log');
  const linesNow = async () => (await readFile(file, 'utf8')).split('\n').slice(0, -1);
  await bed.killServer();
  const isOfCore = (line: string): boolean => line.includes('gRPC call');
  await eventually('a line of the native part', async () => (await linesNow()).some(isOfCore));
  const lines = (await linesNow()).map((line) => JSON.parse(line) as Line);
  assert.ok(lines.some(({ sdkComponent }) => sdkComponent === 'core'));
});
