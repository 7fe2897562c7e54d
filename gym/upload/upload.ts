import type { JsonObject } from '../json/exact.js';
import { isObject, numberOf, parseJson } from '../json/exact.js';
import { textsOf } from '../../src/platform/lines.js';
import type { Members } from '../../src/platform/json/members.js';
import { itemsOf, membersOf, objectText } from '../../src/platform/json/members.js';
import { keepSecret } from '../../src/platform/secrets.js';
import type { Scalar, Upload } from './exporter.js';
import { openUpload } from './exporter.js';
import { createMlflowExporter, mlflowSettings } from './mlflow.js';

/** The exporters that Gym's configuration names, opened; null: none. */
export async function uploadOf(
  config: JsonObject,
  { say, signal }: { say: (text: string) => void; signal: AbortSignal },
): Promise<Upload | null> {
  const settings = mlflowSettings(config);
  if (typeof settings === 'string') say(`WARNING: ${settings}`);
  if (settings === null || typeof settings === 'string') return null;
  if (settings.token !== null) keepSecret(settings.token);
  return await openUpload([createMlflowExporter(settings, { signal })], { config, say });
}

/** The metrics of one agent by upstream's names: `<agent>/<metric>` and `key_metrics/<agent>/<metric>`. */
export function scalarsOf(
  agent: string,
  { agent_metrics, key_metrics }: { agent_metrics: string; key_metrics: string },
): Map<string, Scalar> {
  const found = new Map<string, Scalar>();
  const parts = [
    [agent, agent_metrics],
    [`key_metrics/${agent}`, key_metrics],
  ] as const;
  for (const [prefix, text] of parts) {
    const metrics = parseJson(text);
    if (!isObject(metrics)) continue;
    for (const [name, value] of Object.entries(metrics)) {
      const scalar = numberOf(value) ?? value;
      if (typeof scalar === 'number' || typeof scalar === 'boolean' || typeof scalar === 'string')
        found.set(`${prefix}/${name}`, scalar);
    }
  }
  return found;
}

/** A file's results as they are exported: without trajectories and what model calls carried. */
export async function* exportedResults(file: string): AsyncGenerator<string> {
  for await (const line of textsOf(file)) {
    const members = jsonMembers(line);
    if (members !== null) yield exported(members);
  }
}

/** null: torn, blank or no object. */
function jsonMembers(line: string): Members | null {
  try {
    parseJson(line);
    return membersOf(line);
  } catch {
    return null;
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
