"""The lab: traces replayed under policies, judged by one measure, compared side by side."""
