import { ADAPTERS } from '../generation/adapters.js';
import type { WeightControl } from '../generation/weight-control.js';
import type { PolicyService } from '../activities/dependencies.js';
import type { PolicyRecords } from '../activities/policy/policy-records.js';
import type { PolicyRecord } from '../model/policy/record.js';
import { toMs } from '../model/workflow-safe/durations.js';
import { allowedBy } from '../platform/http/allowed.js';
import { readSecret } from '../platform/secrets.js';
import type { Allowance } from '../platform/waits/allowance.js';
import type { GenerationServiceSettings } from './generation-settings.js';

export interface ServiceContext {
  settings: GenerationServiceSettings;
  env: NodeJS.ProcessEnv;
  replies: Allowance;
}

export type PolicyParts = Omit<PolicyService, 'sayPhase' | 'wake'> & { close: () => Promise<void> };

export function createPolicyParts(
  name: string,
  { records, ...context }: ServiceContext & { records: PolicyRecords },
): PolicyParts {
  const { allow, base_urls, model, forget_after } = context.settings;
  const controls = createControls(name, context);
  return {
    records,
    urls: base_urls,
    controls: () => controls.of(records.known()),
    refusalOf: allowedBy(allow, base_urls).refusalNow,
    model,
    forget_after_ms: forget_after === null ? null : toMs(forget_after),
    close: controls.close,
  };
}

interface Place {
  url: string;
  control_url: string | null;
  given?: true;
}

/** One for each replica of temporal.yaml, and for those that the record has beside it, as far as that allows them. */
export function createControls(name: string, context: ServiceContext) {
  const { allow, base_urls, control } = context.settings;
  const allowed = allowedBy(allow);
  const given = base_urls.map((url, i): Place => {
    return { url, control_url: control.urls?.[i] ?? null, given: true };
  });
  const controlAt = (place: Place) => createControl(name, { ...context, ...place });
  const known = new Map(given.map((place) => [JSON.stringify(place), controlAt(place)]));
  return {
    of: (record: PolicyRecord | null): WeightControl[] => {
      const joined = Object.entries(record?.replicas ?? {})
        .map(([url, { control_url }]): Place => ({ url, control_url }))
        .filter(
          ({ url, control_url }) =>
            !base_urls.includes(url) &&
            [url, control_url ?? url].every((one) => allowed.refusal(one) === null),
        );
      const now = new Map([...given, ...joined].map((place) => [JSON.stringify(place), place]));
      // An update that is under way may still end a pause there. Idle connections end by themselves.
      for (const key of known.keys()) if (!now.has(key)) known.delete(key);
      for (const [key, place] of now) if (!known.has(key)) known.set(key, controlAt(place));
      return [...known.values()];
    },
    close: async () => {
      await Promise.all([...known.values()].map((control) => control.close()));
    },
  };
}

function createControl(
  name: string,
  { settings, env, replies, url, control_url, given }: ServiceContext & Place,
): WeightControl {
  const { api_key_env } = settings.control;
  const { lookupFor } = allowedBy(settings.allow);
  return ADAPTERS[settings.kind].control({
    replica: url,
    control_url,
    api_key: apiKeyOf(name, { settings, env }),
    control_api_key: apiKeyOf(`${name}.control`, { settings: { api_key_env }, env }),
    model: settings.model,
    answers: replies,
    ...(given !== true && { lookupFor }),
  });
}

export const apiKeyOf = (
  name: string,
  {
    settings,
    env,
  }: { settings: Pick<GenerationServiceSettings, 'api_key_env'>; env: NodeJS.ProcessEnv },
): string | null =>
  settings.api_key_env === null
    ? null
    : readSecret(settings.api_key_env, {
        env: (variable) => env[variable],
        setting: `generation.${name}.api_key_env`,
      });
