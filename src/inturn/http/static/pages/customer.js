import { fill } from "../dom.js";
import { t } from "../i18n.js";
import { empty } from "../parts/states.js";

export async function mount(view) {
  fill(view.root, empty(t("shell.coming")));
}
