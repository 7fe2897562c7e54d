import { WorkflowNotFoundError } from '@temporalio/client';
import { follow } from '../client/follow.js';
import { createScreen } from '../client/screen.js';
import { cutLines } from '../client/text-line.js';
import type { StreamClient, StreamLook } from '../client/stream-client.js';
import { connectStream } from '../client/stream-client.js';
import { streamTable } from '../client/stream-table.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import { FLAG, TEXT, integerOf, printJson, optionsIn } from '../platform/arguments.js';
import { temporalSettings } from './temporal-settings.js';

const OPTIONS = { config: TEXT, id: TEXT, through: TEXT, watch: FLAG };

const VERBS = ['status', 'stop', 'forget'];

export async function streamCommand([verb = '', ...args]: string[]): Promise<number> {
  const values = optionsIn(args, OPTIONS);
  const { id, through } = values;
  if (!VERBS.includes(verb) || id === undefined)
    throw new UsageError(
      `expected stream ${VERBS.join('|')} --id STREAM, got ${JSON.stringify(verb)}`,
    );
  const step = verb === 'forget' ? integerOf('--through', { text: through ?? '', least: 0 }) : null;
  const stream = await connectStream((await temporalSettings(values.config)).server, id);
  try {
    if (verb === 'stop') return await stopStream(stream);
    if (step !== null) printJson(await stream.forget(step), 0);
    else await showStatus(id, { stream, watch: values.watch });
    return 0;
  } catch (error) {
    throw error instanceof WorkflowNotFoundError ? new Error(`no stream ${id} runs`) : error;
  } finally {
    await stream.close();
  }
}

export async function stopStream(stream: Pick<StreamClient, 'stop' | 'ended'>): Promise<number> {
  const waits = await stream.stop();
  console.log(waits === null ? 'stop was sent' : plain(`stop was sent, but ${waits}`));
  if (waits !== null) return 1;
  const hasEnded = await stream.ended();
  console.log(
    hasEnded
      ? 'stopped; its steps stay, and starting its id again continues it'
      : 'the stream is stopping; its end is not confirmed yet: stream status shows it',
  );
  return hasEnded ? 0 : 1;
}

/** Once, or with `watch` on a terminal until it has ended or Ctrl-C. */
async function showStatus(
  id: string,
  { stream, watch }: { stream: StreamClient; watch: boolean },
): Promise<void> {
  const screen = createScreen(process.stdout, process.env);
  let now = await stream.look();
  const draw = (seen: StreamLook): boolean => {
    now = seen;
    if (seen.progress.phase === 'done' || seen.ended !== null) return true;
    screen.show((style) => cutLines(tableOf(id, seen), style));
    return false;
  };
  if (watch && screen.live && !draw(now)) {
    // Its worker may be unavailable: the table shows the last known state.
    await follow({
      look: () => stream.look().catch(() => now),
      draw,
      signal: new AbortController().signal,
    });
  }
  screen.close();
  console.log(tableOf(id, now).join('\n'));
  if (now.ended !== null) console.log(plain(`the stream has ended, ${now.ended}`));
}

const tableOf = (id: string, { progress, queued }: StreamLook): string[] =>
  streamTable(id, { ...progress, ...(queued !== undefined && { queued }) });
