import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BundleOptions } from '@temporalio/worker';
import { DefaultLogger, bundleWorkflowCode } from '@temporalio/worker';
import { dataConverter } from '../activities/contract/data-converter.js';

const compiled = (file: string): string =>
  fileURLToPath(new URL(`../workflows/${file}`, import.meta.url));

/** Bundles the workflows at build time, so that a worker starts in a second and every worker runs the same code. */
export const bundlePath = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: compiled('index.js'),
    payloadConverterPath: dataConverter.payloadConverterPath,
    workflowInterceptorModules: [compiled('interceptors.js')],
    // Loaded once for all workflows of a process: no module of theirs keeps anything (eslint.config.js).
    preloadModules: ['index.js', 'payload-converter.js', 'interceptors.js'].map(compiled),
    logger: new DefaultLogger('WARN'),
    webpackConfigHook: nameSourcesRelatively,
  });
  await writeFile(bundlePath, code);
}

type WebpackConfiguration = Parameters<NonNullable<BundleOptions['webpackConfigHook']>>[0];

/** The Web UI shows stack traces of workflows, so they name the project's files instead of the build's. */
function nameSourcesRelatively(config: WebpackConfiguration): WebpackConfiguration {
  const root = fileURLToPath(new URL('../', import.meta.url));
  return {
    ...config,
    output: {
      ...config.output,
      devtoolModuleFilenameTemplate: ({ absoluteResourcePath }: { absoluteResourcePath: string }) =>
        path.relative(root, absoluteResourcePath),
    },
  };
}
