import path from 'node:path';
import { stackFolder } from '../../dev/running-stack.js';
import { startViewer } from '../../viewer/serve/serve.js';
import { addressOf, tokenIn } from '../../viewer/serve/token.js';
import { readBundle } from '../../viewer/shell.js';
import { plain } from '../platform/plain.js';
import { untilAborted } from '../platform/process/interrupts.js';
import { untilShutdown } from '../platform/process/lifeline.js';
import { TEXT, integerOf, optionsIn } from '../platform/arguments.js';
import { DEFAULT_FILE } from './settings-file.js';
import { fileOfStore, withStoreThatAnswers } from './store.js';
import { codeOf } from '../platform/errors.js';

/** Rollouts of a store as pages, until SIGINT or SIGTERM. */
export async function serveCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, { config: TEXT, port: { ...TEXT, default: '8234' } });
  const port = integerOf('--port', { text: values.port, least: 0 });
  const config = (await fileOfStore(values.config)) ?? DEFAULT_FILE;
  const bundle = await readBundle();
  const token = await tokenIn(folderOf(config));
  await withStoreThatAnswers(config, async ({ store }) => {
    const viewer = await startViewer({ store, bundle, token, port }).catch((error: unknown) => {
      throw codeOf(error) === 'EADDRINUSE'
        ? new Error(`--port: ${port} of 127.0.0.1 is taken; another one, or 0 for any`)
        : error;
    });
    console.log(plain(`rollouts of ${store.name}: ${addressOf(viewer.url, token)}`));
    await untilAborted(untilShutdown(process.env));
    await viewer.close();
  });
  return 0;
}

/** The stack's folder: beside temporal.yaml, or around the one that a stack has made. */
function folderOf(config: string): string {
  const folder = path.dirname(path.resolve(config));
  return path.basename(folder) === '.rollouts' ? folder : stackFolder(config);
}
