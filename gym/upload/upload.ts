import type { JsonObject } from '../json/exact.js';
import { textsOf } from '../../src/platform/lines.js';
import type { Members } from '../../src/platform/json/members.js';
import { itemsOf, membersOf, objectText } from '../../src/platform/json/members.js';
import { lineMembers } from '../row.js';
import { keepSecret } from '../../src/platform/secrets.js';
import type { Exporter, Upload } from './exporter.js';
import { openUpload } from './exporter.js';
import { createMlflowExporter, mlflowSettings } from './mlflow.js';
import type { WandbPlace } from './wandb.js';
import { checkWandb, createWandbExporter, wandbSettings } from './wandb.js';

export interface UploadContext extends WandbPlace {
  say: (text: string) => void;
  signal: AbortSignal;
}

/**
 * Checks that what Gym's configuration names can be used here, and rejects otherwise. Returns what opens these
 * exporters, to be called when there are results; it resolves with null where there are none.
 */
export async function uploadOf(
  config: JsonObject,
  { say, signal, ...place }: UploadContext,
): Promise<() => Promise<Upload | null>> {
  const complete = <T>(settings: T | string | null): T | null => {
    if (typeof settings !== 'string') return settings;
    say(`WARNING: ${settings}`);
    return null;
  };
  const exporters: Exporter[] = [];
  const wandb = complete(wandbSettings(config, place.cwd));
  if (wandb !== null) {
    await checkWandb(place);
    keepSecret(wandb.key);
    exporters.push(createWandbExporter(wandb, { ...place, say, signal }));
  }
  const mlflow = complete(mlflowSettings(config));
  if (mlflow !== null) {
    if (mlflow.token !== null) keepSecret(mlflow.token);
    exporters.push(createMlflowExporter(mlflow, { signal }));
  }
  return async () => (exporters.length === 0 ? null : await openUpload(exporters, { config, say }));
}

/** A file's results as they are exported: without trajectories and what model calls carried. */
export async function* exportedResults(file: string): AsyncGenerator<string> {
  for await (const line of textsOf(file)) {
    const members = lineMembers(line);
    if (typeof members !== 'string') yield exported(members);
  }
}

const CARRIED = ['request', 'response', 'request_raw', 'response_raw'];

function exported(members: Members): string {
  members.delete('ng_trajectory');
  const capture = membersOf(members.get('ng_model_call_capture') ?? '');
  members.delete('ng_model_call_capture');
  if (capture !== null) {
    const calls = itemsOf(capture.get('calls') ?? '')?.flatMap((item) => {
      const call = membersOf(item);
      for (const name of CARRIED) call?.delete(name);
      return call === null ? [] : [objectText(call)];
    });
    if (calls === undefined) capture.delete('calls');
    else capture.set('calls', `[${calls.join(',')}]`);
    members.set('ng_model_call_capture', objectText(capture));
  }
  return objectText(members);
}
