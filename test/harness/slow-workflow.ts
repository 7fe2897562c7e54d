/**
 * `slow-workflow.js MILLISECONDS [LIMIT]`: plays a workflow whose only task takes so long, as a worker does, and says
 * so. LIMIT, in milliseconds, replaces the worker's own.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { workflowThread } from '../../src/workers/workflow-thread.js';
import { writeHistory } from './written-history.js';

const [, , task = '', limit] = process.argv;

/** It waits, to cost a busy machine nothing. The storage is what a cancellation scope has. */
const SLOW = `;{
  const { __TEMPORAL__: own } = globalThis;
  const { importWorkflows } = own;
  const slow = () => new AsyncLocalStorage().run('scope', async () => {
    await null;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${Number(task)});
  });
  own.importWorkflows = () => ({ ...importWorkflows(), slow });
}
`;

const bundle = await readFile(path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js'), 'utf8');
// The SDK reads what follows, to the end.
const map = bundle.lastIndexOf('//# sourceMappingURL');
const history = writeHistory({ type: 'slow', workflowId: 'slow' });
history.task();
history.add('WORKFLOW_EXECUTION_COMPLETED', {});
await history.replay({
  workflowBundle: { code: bundle.slice(0, map) + SLOW + bundle.slice(map) },
  debugMode: false,
  ...workflowThread,
  ...(limit !== undefined && { isolateExecutionTimeout: Number(limit) }),
});
console.log(`played a task of ${task} ms`);
