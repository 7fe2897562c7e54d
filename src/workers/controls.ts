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

/** How the weights of a service's replicas are changed: those of temporal.yaml, and those that have joined. */

interface ControlsContext {
  settings: GenerationServiceSettings;
  env: NodeJS.ProcessEnv;
  replies: Allowance;
}

export type PolicyParts = Omit<PolicyService, 'sayPhase' | 'wake'> & { close: () => Promise<void> };

export function createPolicyParts(
  name: string,
  { records, ...context }: ControlsContext & { records: PolicyRecords },
): PolicyParts {
  const { base_urls, model, forget_after } = context.settings;
  const given = createControls(name, context);
  const joined = createJoined(name, context);
  const allowed = allowedBy(context.settings.allow, base_urls);
  return {
    records,
    urls: base_urls,
    get controls() {
      return [...given, ...joined.of(records.known())];
    },
    refusalOf: allowed.refusalNow,
    model,
    forget_after_ms: forget_after === null ? null : toMs(forget_after),
    close: async () => {
      await Promise.all(given.map((control) => control.close()));
      await joined.close();
    },
  };
}

/** Connects to what the record has beside temporal.yaml, as far as that allows it. */
function createJoined(name: string, context: ControlsContext) {
  const { settings } = context;
  const allowed = allowedBy(settings.allow);
  const known = new Map<string, WeightControl>();
  const keyOf = (replica: string, control_url: string | null): string =>
    JSON.stringify([replica, control_url]);
  const of = (record: PolicyRecord | null): WeightControl[] => {
    const entries = Object.entries(record?.replicas ?? {}).filter(
      ([url, { control_url }]) =>
        !settings.base_urls.includes(url) &&
        [url, control_url ?? url].every((one) => allowed.refusal(one) === null),
    );
    const keys = new Set(entries.map(([url, { control_url }]) => keyOf(url, control_url)));
    // An update that is under way may still end a pause there. Idle connections end by themselves.
    for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    return entries.map(([url, { control_url }]) => {
      const key = keyOf(url, control_url);
      const control = known.get(key) ?? createControl(name, { ...context, url, control_url });
      known.set(key, control);
      return control;
    });
  };
  return {
    of,
    close: async () => {
      await Promise.all([...known.values()].map((control) => control.close()));
    },
  };
}

/** One for each replica of temporal.yaml. */
export const createControls = (name: string, context: ControlsContext): WeightControl[] =>
  context.settings.base_urls.map((url, i) =>
    createControl(name, {
      ...context,
      url,
      control_url: context.settings.control.urls?.[i] ?? null,
      given: true,
    }),
  );

function createControl(
  name: string,
  {
    settings,
    env,
    replies,
    url,
    control_url,
    given = false,
  }: ControlsContext & { url: string; control_url: string | null; given?: boolean },
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
    ...(!given && { lookupFor }),
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
