"""The look that Gradio's own components take: one accent, quiet neutrals, the system's fonts.

Covers Gradio's theme variables; everything drawn by this program is styled in assets/levers.css. No font is fetched.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr
from gradio.themes.utils import colors, sizes

STYLESHEET = Path(__file__).parents[2] / "assets" / "levers.css"

SANS = ("-apple-system", "Segoe UI", "Roboto", "Noto Sans", "Helvetica Neue", "Arial", "system-ui", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Liberation Mono", "monospace")

ACCENT = colors.Color(
    name="levers",
    c50="#eef3ff",
    c100="#dde7ff",
    c200="#bfd0ff",
    c300="#98b3ff",
    c400="#6f91f5",
    c500="#4a6fe3",
    c600="#2f55cf",
    c700="#2645aa",
    c800="#213a88",
    c900="#1d316d",
    c950="#131f47",
)


# Gradio's variables: light, then dark. The same colors stand in assets/levers.css for what Gradio does not draw.
_LOOK = {
    "body_background_fill": "#f6f7f9",
    "body_background_fill_dark": "#0f131a",
    "body_text_color": "#1a2230",
    "body_text_color_dark": "#e6eaf1",
    "body_text_color_subdued": "#566071",
    "body_text_color_subdued_dark": "#9aa5b6",
    "background_fill_primary": "#ffffff",
    "background_fill_primary_dark": "#171c25",
    "background_fill_secondary": "#f6f7f9",
    "background_fill_secondary_dark": "#1d2430",
    "block_background_fill": "transparent",
    "block_background_fill_dark": "transparent",
    "block_border_width": "0px",
    "block_border_width_dark": "0px",
    "block_shadow": "none",
    "block_shadow_dark": "none",
    "block_padding": "0px",
    "block_label_background_fill": "transparent",
    "block_label_background_fill_dark": "transparent",
    "block_title_text_color": "#1a2230",
    "block_title_text_color_dark": "#e6eaf1",
    "block_title_text_weight": "600",
    "block_info_text_color": "#566071",
    "block_info_text_color_dark": "#9aa5b6",
    "border_color_primary": "#d9dee6",
    "border_color_primary_dark": "#2c3544",
    "input_background_fill": "#ffffff",
    "input_background_fill_dark": "#10151d",
    "input_border_color": "#b9c1cd",
    "input_border_color_dark": "#414c5e",
    "input_border_width": "1px",
    "input_border_color_focus": "*primary_600",
    "input_border_color_focus_dark": "*primary_400",
    "input_shadow": "none",
    "input_shadow_focus": "0 0 0 3px rgba(74, 111, 227, .25)",
    "input_placeholder_color": "#6b7585",
    "input_placeholder_color_dark": "#8893a4",
    "button_primary_background_fill": "*primary_600",
    "button_primary_background_fill_hover": "*primary_700",
    "button_primary_background_fill_dark": "*primary_300",
    "button_primary_background_fill_hover_dark": "*primary_200",
    "button_primary_text_color": "#ffffff",
    "button_primary_text_color_dark": "#0d1526",
    "button_primary_border_color": "*primary_600",
    "button_primary_border_color_dark": "*primary_300",
    "button_secondary_background_fill": "#ffffff",
    "button_secondary_background_fill_dark": "#1d2430",
    "button_secondary_background_fill_hover": "#eef1f5",
    "button_secondary_background_fill_hover_dark": "#273041",
    "button_secondary_border_color": "#b9c1cd",
    "button_secondary_border_color_dark": "#414c5e",
    "button_secondary_text_color": "#1a2230",
    "button_secondary_text_color_dark": "#e6eaf1",
    "checkbox_background_color": "#ffffff",
    "checkbox_background_color_dark": "#10151d",
    "checkbox_background_color_selected": "*primary_600",
    "checkbox_background_color_selected_dark": "*primary_500",
    "checkbox_border_color": "#7d8899",
    "checkbox_border_color_dark": "#6b778a",
    "checkbox_label_background_fill": "transparent",
    "checkbox_label_background_fill_dark": "transparent",
    "checkbox_label_background_fill_hover": "transparent",
    "checkbox_label_background_fill_hover_dark": "transparent",
    "checkbox_label_text_weight": "600",
}


def theme() -> gr.themes.Base:
    """The theme for Blocks.launch."""
    base = gr.themes.Base(
        primary_hue=ACCENT,
        secondary_hue=ACCENT,
        neutral_hue=colors.slate,
        radius_size=sizes.radius_md,
        text_size=sizes.text_md,
        font=SANS,
        font_mono=MONO,
    )
    return base.set(**_LOOK)
