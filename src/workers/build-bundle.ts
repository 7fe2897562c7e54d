import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { DefaultLogger, bundleWorkflowCode } from '@temporalio/worker';

/** Bundles the workflows at build time, so that a worker starts in a second and every worker runs the same code. */
export const bundlePath = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../workflows/index.js', import.meta.url)),
    logger: new DefaultLogger('WARN'),
  });
  await writeFile(bundlePath, code);
}
